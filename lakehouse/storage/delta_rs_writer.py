"""Few rows written without Spark: the one fenced commit that ``spark_writer`` would make, by deltalake.

Spark takes half a second to plan such a commit and to compute the table's state for it, deltalake some milliseconds.
``eligibility`` tells where it may: on a local disk, where our lock keeps others away, and only into a table of which
deltalake makes the same as Spark. Everywhere else ``spark_writer`` is the way, to the same rows.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError

from lakehouse.decoding.staged import STALE
from lakehouse.errors import ConflictError
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.ledger import app_id
from lakehouse.ledger.log import open_anew
from lakehouse.ledger.log_files import LOG
from lakehouse.ledger.table_failures import write_failures
from lakehouse.storage.layout import Layout, is_within
from lakehouse.storage.parquet_properties import writer_properties
from lakehouse.storage.spark_writer import commit_otherwise

_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_CHECKPOINTS = 10  # commits from one checkpoint to the next, as Spark makes them; deltalake by itself makes fewer


def append_quickly(layout: Layout, rows: pa.Table, commit: Commit) -> Entry:
    """Append rows in one commit that carries ``commit``; nothing of the table is read.

    It is made on the very version that ``commit`` was planned on, or not at all: raises ``ConflictError`` where
    somebody committed since, ``TableError`` where the disk or the table fails.
    """

    def write(table: DeltaTable) -> None:
        write_deltalake(table, _as_stored(rows, table), mode="append", **_fence(layout, rows, commit))

    return commit_otherwise(layout, commit, lambda: _on_planned(layout, commit, write))


def merge_quickly(layout: Layout, rows: pa.Table, key: Sequence[str], gone: str, commit: Commit) -> Entry:
    """Make the table hold these rows, one for each key, in one commit that carries ``commit``.

    A row is deleted where ``gone`` says so, updated where another column differs, inserted where its key is not there.
    NULL equals NULL. Raises what ``append_quickly`` raises.
    """
    others = [name for name in layout.names if name not in key]

    def write(table: DeltaTable) -> None:
        source = _as_stored(rows.drop_columns([gone]), table).append_column(gone, rows[gone])
        fence = _fence(layout, rows, commit)
        merge = table.merge(source, _equal(key), source_alias="s", target_alias="t", streamed_exec=False, **fence)
        merge = merge.when_matched_delete(f"s.{gone}")
        merge = merge.when_matched_update(_from_source(others), f"NOT ({_equal(others)})")
        merge.when_not_matched_insert(_from_source(layout.names), f"NOT s.{gone}").execute()
        if table.version() == commit.table_version:  # deltalake commits no merge that changes nothing (seen)
            write_deltalake(table, pa.schema(table.schema()).empty_table(), mode="append", **fence)

    return commit_otherwise(layout, commit, lambda: _on_planned(layout, commit, write))


def store_quickly(
    layout: Layout, rows: pa.Table, key: Sequence[str], partitions: Collection[str] | None, commit: Commit
) -> Entry:
    """Store rows, one for each key and of that key alone, in one commit that carries ``commit``.

    A row whose key is there takes its place; one that is stale is counted, and nothing else. At least one is not: a
    merge that changes nothing is no commit for deltalake. Where the rows are all in some ``partitions``, the others are
    not read. Raises what ``append_quickly`` raises.
    """
    same = [f"t.{_named(name)} = s.{_named(name)}" for name in key]
    on = " AND ".join([*same, *_within(layout, partitions), f"NOT s.{STALE}"])
    # else it writes the bounds of the source into the history, and with them whole texts
    streamed = not all(pa.types.is_primitive(rows.schema.field(name).type) for name in key)

    def write(table: DeltaTable) -> None:
        source = _as_stored(rows.drop_columns([STALE]), table).append_column(STALE, rows[STALE])
        fence = _fence(layout, rows, commit)
        merge = table.merge(source, on, source_alias="s", target_alias="t", streamed_exec=streamed, **fence)
        merge = merge.when_matched_update(_from_source([name for name in layout.names if name not in key]))
        merge.when_not_matched_insert(_from_source(layout.names), f"NOT s.{STALE}").execute()

    return commit_otherwise(layout, commit, lambda: _on_planned(layout, commit, write))


def _within(layout: Layout, partitions: Collection[str] | None) -> list[str]:
    if layout.partition_by is None or not partitions:
        return []
    return [is_within(f"t.{_named(layout.partition_by)}", layout, partitions)]


def _from_source(names: Sequence[str]) -> dict[str, str]:
    return {_named(name): f"s.{_named(name)}" for name in names}


def _named(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _equal(names: Sequence[str]) -> str:
    return " AND ".join(f"(t.{_named(name)} IS NOT DISTINCT FROM s.{_named(name)})" for name in names)


def _as_stored(rows: pa.Table, table: DeltaTable) -> pa.Table:
    schema = pa.schema(table.schema())
    return rows.select(schema.names).cast(schema)


def _fence(layout: Layout, rows: pa.Table, commit: Commit) -> dict[str, Any]:
    """The transaction number and the metadata of a commit of rows; where another takes its version, it is not made."""
    number = Transaction(app_id(layout.name), commit.number)
    said = {"userMetadata": commit.model_dump_json()}
    properties = CommitProperties(custom_metadata=said, max_commit_retries=0, app_transactions=[number])
    return {
        "commit_properties": properties,
        "post_commithook_properties": _HOOKS,
        "writer_properties": writer_properties(rows),
    }


def _on_planned(layout: Layout, commit: Commit, write: Callable[[DeltaTable], None]) -> None:
    """Write the table as it was when the commit was planned."""
    with write_failures(layout.uri):
        table = open_anew(layout.uri)
        try:
            if table is None or table.version() != commit.table_version:
                raise CommitFailedError(f"It is no longer at version {commit.table_version}")
            _forget_sums(layout, f"{table.version() + 1:020d}.json")
            write(table)
        except CommitFailedError as error:
            fact = f"Another writer changed {layout.name} since it was read"
            raise ConflictError(fact, where=layout.uri) from error
    if table.version() % _CHECKPOINTS == 0:
        _write_checkpoint(layout, table)


def _write_checkpoint(layout: Layout, table: DeltaTable) -> None:
    """Write a checkpoint where that can be done: the commit stands without it."""
    try:
        _forget_sums(layout, f"{table.version():020d}.checkpoint.parquet", "_last_checkpoint")
        table.create_checkpoint()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # deltalake's code may panic, which is no Exception
        return


def _forget_sums(layout: Layout, *files: str) -> None:
    """Delete Hadoop's checksums of files that are written now: those of former files would call them damaged.

    Delta reads a last checkpoint that it takes for damaged three times, a second apart, in each new session.
    """
    for file in files:
        Path(layout.uri, LOG, f".{file}.crc").unlink(missing_ok=True)
