"""Change feeds with commits of lakehouse, written without Spark."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import read_ledger

_TYPES = {
    "id": pa.int64(),
    "change": pa.string(),
    "source_table_id": pa.string(),
    "source_version": pa.int64(),
    "value_after": pa.int64(),
}


def append_changes(folder: Path, changes: Iterable[tuple[int, str, int, int]], source_version: int) -> None:
    """Append changes (id, change, version, value after) to the feed of a table, up to a version of the table."""
    feed = folder.with_name(f"{folder.name}_changes")
    table_id = str(DeltaTable(folder).metadata().id)
    rows = [(id_, change, table_id, version, value) for id_, change, version, value in changes]
    table = pa.Table.from_pylist([dict(zip(_TYPES, row, strict=True)) for row in rows], pa.schema(_TYPES))
    commit = read_ledger(str(feed), feed.name).next_commit("derived", "cli")
    commit = commit.with_fields(consumed=Consumed(table_id=table_id, version=source_version))
    properties = CommitProperties(custom_metadata={"userMetadata": commit.model_dump_json()})
    write_deltalake(feed, table, mode="append", commit_properties=properties)
