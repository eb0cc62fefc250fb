"""Few rows written without Spark: the one fenced commit that ``write`` would make, by deltalake.

Spark takes half a second to plan such a commit and to compute the table's state for it, deltalake some milliseconds.
``is_quick`` tells where it may: on a local disk, where our lock keeps others away, and only into a table of which
deltalake makes the same as Spark. Everywhere else ``write`` is the way, to the same rows.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from lakehouse.delta.commits import Commit, Entry
from lakehouse.delta.failures import log_failures
from lakehouse.delta.layout import Layout
from lakehouse.delta.ledger import app_id
from lakehouse.delta.log import open_table
from lakehouse.delta.write import commit_otherwise
from lakehouse.errors import ConflictError

MOST_ROWS = 50_000  # of a commit, held by this process
_MOST_MET = 1_000_000  # rows of a table that is merged into
_MOST_FILES = 20  # of it, of which each is asked how it holds times
_FEATURES = {"appendOnly", "invariants", "changeDataFeed"}  # of a table that deltalake writes as Spark does
_PLAIN_WRITER, _NAMES_FEATURES = 2, 7  # versions of the protocol; those between hold features that it does not name
_STATISTICS = "delta.dataSkippingStatsColumns"
# types of which deltalake writes the bounds that Spark would: not of a DOUBLE, where NaN is none, and of decimals only
# those that a double holds exactly
_BOUNDED = re.compile(r"DATE|TIMESTAMP|STRING|BOOLEAN|INT|BIGINT|DECIMAL\((\d|1[0-5]),.*")
_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_CHECKPOINTS = 10  # commits from one checkpoint to the next, as Spark makes them; deltalake by itself makes fewer


def is_quick(layout: Layout, rows: int | None) -> bool:
    """Whether so many rows (``None``: nobody knows) may be written into the table, which is there, without Spark."""
    return _opened(layout, rows) is not None


def _opened(layout: Layout, rows: int | None) -> DeltaTable | None:
    if rows is None or rows > MOST_ROWS or "://" in layout.uri or not _tells_bounds(layout):
        return None
    table = open_table(layout.uri)
    return table if table is not None and _is_plain(table, layout) else None


def _tells_bounds(layout: Layout) -> bool:
    types = {column.name: column.type for column in layout.columns}
    return all(_BOUNDED.fullmatch(types[name].upper().replace(" ", "")) for name in layout.statistics)


def _is_plain(table: DeltaTable, layout: Layout) -> bool:
    """Whether nobody gave the table what deltalake does otherwise, or not at all."""
    needs, said = table.protocol(), table.metadata()
    features = {*(needs.reader_features or ()), *(needs.writer_features or ())}
    told = needs.min_writer_version == _NAMES_FEATURES and features <= _FEATURES
    known = needs.min_reader_version == 1 and (needs.min_writer_version <= _PLAIN_WRITER or told)
    wanted = layout.statistics_properties
    bounded = bool(wanted) and said.configuration.get(_STATISTICS) == wanted[_STATISTICS]
    same = [field.name for field in table.schema().fields] == layout.names and not said.partition_columns
    return known and bounded and same and said.configuration.get("delta.appendOnly") != "true"


def is_quick_to_merge(layout: Layout, rows: int | None) -> bool:
    """Whether so many rows may be merged into the table without Spark.

    It is looked through as a whole at worst, and what is copied has to stay as it is: deltalake takes an INT96, as
    which Spark wrote times by itself, for nanoseconds (seen: the year 9999 became 1816).
    """
    table = _opened(layout, rows)
    with log_failures(layout.uri):
        if table is None or int(table.count()) > _MOST_MET or len(files := table.file_uris()) > _MOST_FILES:
            return False
        return not any(_has_int96(file) for file in files)


def _has_int96(file: str) -> bool:
    try:
        schema = pq.read_metadata(file).schema
    except (OSError, ValueError):  # missing or damaged: Spark says so
        return True
    return any(schema.column(number).physical_type == "INT96" for number in range(len(schema)))


def append_quickly(layout: Layout, rows: pa.Table, commit: Commit) -> Entry:
    """Append rows in one commit that carries ``commit``; nothing of the table is read.

    It is made on the very version that ``commit`` was planned on, or not at all: raises ``ConflictError`` where
    somebody committed since, ``TableError`` where the disk or the table fails.
    """

    def write(table: DeltaTable) -> None:
        write_deltalake(table, _as_stored(rows, table), mode="append", **_fence(layout, commit))

    return commit_otherwise(layout, commit, lambda: _on_planned(layout, commit, write))


def merge_quickly(layout: Layout, rows: pa.Table, key: Sequence[str], gone: str, commit: Commit) -> Entry:
    """Make the table hold these rows, one for each key, in one commit that carries ``commit``.

    A row is deleted where ``gone`` says so, updated where another column differs, inserted where its key is not there.
    NULL equals NULL. Raises what ``append_quickly`` raises.
    """
    others = [name for name in layout.names if name not in key]

    def write(table: DeltaTable) -> None:
        source = _as_stored(rows.drop_columns([gone]), table).append_column(gone, rows[gone])
        fence = _fence(layout, commit)
        merge = table.merge(source, _equal(key), source_alias="s", target_alias="t", streamed_exec=False, **fence)
        merge = merge.when_matched_delete(f"s.{gone}")
        merge = merge.when_matched_update(_from_source(others), f"NOT ({_equal(others)})")
        merge.when_not_matched_insert(_from_source(layout.names), f"NOT s.{gone}").execute()
        if table.version() == commit.table_version:  # deltalake commits no merge that changes nothing (seen)
            write_deltalake(table, pa.schema(table.schema()).empty_table(), mode="append", **fence)

    return commit_otherwise(layout, commit, lambda: _on_planned(layout, commit, write))


def _from_source(names: Sequence[str]) -> dict[str, str]:
    return {_named(name): f"s.{_named(name)}" for name in names}


def _named(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _equal(names: Sequence[str]) -> str:
    return " AND ".join(f"(t.{_named(name)} IS NOT DISTINCT FROM s.{_named(name)})" for name in names)


def _as_stored(rows: pa.Table, table: DeltaTable) -> pa.Table:
    schema = pa.schema(table.schema())
    return rows.select(schema.names).cast(schema)


def _fence(layout: Layout, commit: Commit) -> dict[str, Any]:
    """The transaction number and the metadata of a commit; where another takes its version, it is not made."""
    number = Transaction(app_id(layout.name), commit.number)
    said = {"userMetadata": commit.model_dump_json()}
    properties = CommitProperties(custom_metadata=said, max_commit_retries=0, app_transactions=[number])
    return {"commit_properties": properties, "post_commithook_properties": _HOOKS}


def _on_planned(layout: Layout, commit: Commit, write: Callable[[DeltaTable], None]) -> None:
    """Write the table as it was when the commit was planned."""
    with log_failures(layout.uri):
        table = open_table(layout.uri)
        try:
            if table is None or table.version() != commit.table_version:
                raise CommitFailedError(f"It is no longer at version {commit.table_version}")
            write(table)
            if table.version() % _CHECKPOINTS == 0:
                with suppress(DeltaError, OSError):  # the commit stands without it
                    table.create_checkpoint()
        except CommitFailedError as error:
            fact = f"Another writer changed {layout.name} since it was read"
            raise ConflictError(fact, where=layout.uri) from error
