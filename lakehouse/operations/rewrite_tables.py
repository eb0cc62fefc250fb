"""Rewrite the tables of a declaration with new types or partitions, or restore one to an earlier version."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame

from lakehouse.declaration import Column, Day, Json, Month, StreamTable, Year
from lakehouse.decoding import staged
from lakehouse.errors import TableError
from lakehouse.ingest.decode import decode_records
from lakehouse.ledger.commit_infos import committed_at, progress_by_stream
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger, ledger_as_of, ledger_of, read_ledger
from lakehouse.ledger.log import open_version, read_commit
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.versions import count_rows, count_rows_in
from lakehouse.operations.planned_changes import layouts_of
from lakehouse.storage.delta_rs_writer import restore_version
from lakehouse.storage.layout import Layout
from lakehouse.storage.schema_change import require_exact, require_nothing
from lakehouse.storage.schema_diff import RewriteScope, SchemaDiff, read_schema_diff
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, retry_on_conflict


@dataclass(frozen=True)
class RewrittenTable:
    """A table whose rows were all rewritten; ``detail`` names the new types and partitions."""

    name: str
    version: int
    detail: str


def rewrite_tables(context: TableContext) -> list[RewrittenTable]:
    """Rewrite all rows of each table whose types or partitions differ from its declaration.

    The values stay the same: if a value would change, the function raises an error before it writes anything. A text is
    read by ``written`` and ``null_values`` of its column, if it has them. Progress and accounting continue; the change
    feed reports no changes. The merged table is first. A second run completes what a failed run left, and otherwise
    does nothing. The next merge recomputes the rollups.

    Raises ``TableError`` also if the key differs, if a type cannot represent the same values, or if the change feed has
    not read all changes.
    """
    settings, table = context.settings, context.table
    context.ledger()  # refuses a table whose history does not record its progress
    times = [column for column in table.columns if column.type in Month.types]
    periods = [unit(column.name) for column in times for unit in (Day, Month, Year) if column.type in unit.types]
    rules = [column for column in table.record_columns if column.written or column.null_values]
    scope = RewriteScope(table.partition_by, periods, {column.name: partial(_read_texts, column) for column in rules})
    layouts = [layout for layout in layouts_of(settings, table) if layout.name != table.rejected_name]
    diffs = [(layout, diff) for layout in layouts if (diff := read_schema_diff(layout, scope)) and diff.needs_rewrite]
    if any(layout.name == table.name for layout, _ in diffs):
        _require_feed_up_to_date(context)
    for layout, diff in diffs:
        with spark_failures(layout.uri):
            require_exact(context.spark, layout, diff, scope)
    return [_rewrite(context, layout, diff, scope) for layout, diff in diffs]


def _read_texts(column: Column, texts: DataFrame) -> DataFrame:
    """Read texts (``text``) as records of JSON that have this column alone: a reader of ``RewriteScope``."""
    read_column = replace(column, source=None, formerly=None, default=None, invalid=None)
    read_column = replace(read_column, keep=False, null_erases=False)
    table = StreamTable("texts", "texts", "Texts that are rewritten.", [read_column], key=(), format=Json())
    record = {
        staged.TIME: "timestamp_micros(0)",
        staged.PARTITION: "0",
        staged.POSITION: "0L",
        staged.SEQUENCE: "CAST(NULL AS BIGINT)",
        staged.KEY: "CAST(NULL AS BINARY)",
        staged.VALUE: f"to_binary(to_json(struct(text AS `{column.name}`)), 'utf-8')",
        staged.HEADERS: "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)",
    }
    records = texts.selectExpr(*(f"{sql} AS {name}" for name, sql in record.items()))
    text = f"get_json_object(CAST({staged.VALUE} AS STRING), '$.{column.name}') AS text"
    detail = f"concat({staged.REASON}, ': ', {staged.DETAIL}) AS detail"
    return decode_records(records, table, keep_raw="true").selectExpr(text, f"`{column.name}` AS value", detail)


def _rewrite(context: TableContext, layout: Layout, diff: SchemaDiff, scope: RewriteScope) -> RewrittenTable:
    is_merged = layout.name == context.table.name
    before_rewrite = partial(_require_feed_up_to_date, context) if is_merged else require_nothing
    stored_table = context.merged if is_merged else StoredTable(context.spark, layout)
    ledger = retry_on_conflict(lambda: stored_table.ensured_ledger(before_rewrite, scope))
    return RewrittenTable(layout.name, ledger.version, ", ".join(_describe(layout, diff)))


def _require_feed_up_to_date(context: TableContext) -> None:
    """Raise if the change feed has not read all changes: it cannot read earlier changes after the rewrite."""
    table, merged = context.table, context.ledger()
    feed = ledger_of(context.settings, table.changes_name)
    if not table.is_log and feed.exists and not Consumption(merged, feed.consumed).is_current:
        raise TableError(
            f"{table.changes_name} has not read all changes of {table.name} yet, and cannot read them after a rewrite",
            where=merged.uri,
            action=f"Undo the change of the declaration, run lakehouse merge {table.name}, then make the change again.",
        )


def _describe(layout: Layout, diff: SchemaDiff) -> Iterator[str]:
    types = {column.name: column.type for column in layout.columns}
    yield from (f"{name} {types[name]}" for name in (*diff.widened_columns, *diff.recast_columns))
    if diff.stored_partitions is not None:
        yield f"partitioned by {', '.join(layout.partitions) or 'nothing'}"


@dataclass(frozen=True)
class PlannedRestore:
    """A restore for a person to confirm.

    ``newest`` is the version of the table now. ``committed_at`` is the time of the earlier version, UTC; ``None`` if
    its commit has expired. ``rows`` are those now and then. ``positions`` has, for each partition that goes back, the
    next position now and then; ``None`` is the earliest of the topic. A partition is a number, after the name of its
    topic if the table reads several. A table without progress has no positions.
    """

    layout: Layout
    version: int
    newest: int
    committed_at: datetime | None
    rows: tuple[int, int]
    positions: Mapping[int | str, tuple[int | None, int | None]]

    @property
    def undoes_start(self) -> bool:
        """Whether the earlier version has no progress, so that the table begins in its topic again."""
        return bool(self.positions) and all(then is None for _, then in self.positions.values())

    def run(self) -> None:
        """Commit the restore; raises what ``restore_version`` raises. A second run is refused, and changes nothing."""
        restore_version(self.layout, self.version, self.newest)


def plan_restore(layout: Layout, version: int) -> PlannedRestore:
    """Read what a restore would undo, without a JVM; writes nothing.

    Raises ``TableError`` if the table does not exist, if lakehouse did not write it, or if the version is not an
    earlier one that the log still shows. Raises what ``read_ledger`` raises.
    """
    uri, name = layout.uri, layout.name
    ledger = read_ledger(uri, name)
    if not ledger.entries and not ledger.transaction:
        problem = "has no commit of lakehouse" if ledger.exists else "does not exist"
        raise TableError(f"Table {name} {problem}", where=uri, action="Nothing was changed.")
    if version >= ledger.version:
        message = f"Version {version} of {name} is not an earlier version: the newest is {ledger.version}"
        raise TableError(message, where=uri, action="Choose a smaller number.")
    table = open_version(uri, version)
    with log_failures(uri):
        rows = count_rows(uri), count_rows_in(table, uri)
    former_ledger = ledger_as_of(table, uri, name)
    if ledger.progress and former_ledger.transaction and not former_ledger.progress:
        message = f"The log no longer shows the progress of version {version} of {name}"
        raise TableError(message, where=uri, action="Choose a newer version.")
    has_several = ledger.newest is not None and bool(ledger.newest.commit.other_sources)
    now, then = _positions(ledger, has_several), _positions(former_ledger, has_several)
    partitions = [p for p in dict.fromkeys([*now, *then]) if now.get(p) != then.get(p)]
    info = read_commit(uri, version)
    positions = {p: (now.get(p), then.get(p)) for p in partitions}
    return PlannedRestore(layout, version, ledger.version, committed_at(info) if info else None, rows, positions)


def _positions(ledger: Ledger, has_several: bool) -> Mapping[int | str, int]:
    named_positions = [
        (name, partition, position)
        for name, part in progress_by_stream(ledger.newest.commit if ledger.newest else None).items()
        for partition, position in (part.progress or {}).items()
    ]
    return {f"{name} {p}" if has_several else p: position for name, p, position in sorted(named_positions)}
