"""Checks of the data itself: keys, rows, rollups, the share of rejected records, the source of timestamps."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    PySparkException,
    SparkRuntimeException,
)
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Check, Rollup, StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.derived.feed import Derived, Upstream
from lakehouse.derived.refresh import find_differing_groups, is_as_declared, recompute, rollup_layout
from lakehouse.errors import restore_advice
from lakehouse.errors.causes import error_text
from lakehouse.errors.troubles import is_version_gone
from lakehouse.ingest.compared_rows import fields_of
from lakehouse.ledger.accounting import sums
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.positions import SourceState
from lakehouse.storage.layout import Layout
from lakehouse.storage.row_order import KEPT, identity
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext

_CONDITION_ERRORS = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    SparkRuntimeException,
)
_RECENT = timedelta(hours=24)  # the window for the share of rejected records
_COMMITS = 100  # the newest commits, which are read in any case
_SHARE = 0.01  # of the records read in this window may be rejected
_MAX_SHOWN = 5  # maximum number of rows that a failed check lists
ROWS_IN_SNAPSHOT, VALUES_SENT = "rows_in_snapshot", "values_sent"


@spark_failures()
def verify_keys(context: TableContext) -> Finding:
    """Check that every key (in a log table, every record) has one row, and that each row is in its partition.

    A merge does not find a row in a wrong partition. If its key arrives again, the key then has two rows.
    """
    table, rows = context.table, context.merged.rows()
    counts = rows.groupBy(*map(F.expr, identity(table))).agg(F.count("*").alias("_count")).where("_count > 1")
    duplicates = counts.select(*(F.col(name).cast("string") for name in counts.columns)).limit(_MAX_SHOWN).collect()
    subject = "Record" if table.is_log else "Key"
    problems = [f"{subject} {', '.join(map(str, row[:-1]))} has {row[-1]} rows." for row in duplicates]
    if table.partition_by:
        misplaced_rows = rows.where(f"NOT (`{table.partition_by.name}` <=> {table.partition_by.expression})")
        examples = misplaced_rows.select(*_identity_text(table), table.partition_by.name).limit(_MAX_SHOWN).collect()
        problems += [
            f"{subject} {', '.join(map(str, row[:-1]))} is in the wrong partition {row[-1]}." for row in examples
        ]
    advice = (
        f"Restore a version before the wrong write (lakehouse audit {table.name} lists the versions), then run"
        f" lakehouse merge {table.name}. It continues from the progress of that version and reads the later records"
        f" again, as far as the topic still has them. {restore_advice(context.merged.layout.uri)}"
    )
    return finding("keys_unique", problems, f"every {subject.lower()} has one row, in its partition", advice)


def _identity_text(table: StreamTable) -> list[Column]:
    return [F.expr(part).cast("string") for part in identity(table)]


@spark_failures()
def verify_rows(context: TableContext, check: Check) -> Finding:
    """Check that every row of the merged table meets the condition of a declared check.

    If Spark cannot parse the condition, or cannot compute it for a row, the check fails and reports the error.
    """
    try:
        problems = find_rows(context, f"NOT ({check.sql}\n)")
    except _CONDITION_ERRORS as error:
        problem = f"The condition cannot be computed: {error_text(error).splitlines()[0]}."
        return finding(check.name, [problem], check.sql, "Correct the check in the declaration.")
    return finding(check.name, problems, check.sql)


def find_rows(context: TableContext, condition: str, fact: str = "") -> list[str]:
    """Describe the first rows of the merged table that meet a condition, and how many there are, in sentences."""
    failing_rows = context.merged.rows().where(condition)
    examples = failing_rows.select(*_identity_text(context.table)).limit(_MAX_SHOWN).collect()
    count = [f"Rows that do not pass: {failing_rows.count()}."] if examples else []
    return [*(f"Row {', '.join(map(str, row))}{fact}." for row in examples), *count]


@spark_failures()
def verify_rollup(context: TableContext, rollup: Rollup) -> Finding:
    """Check that a rollup equals a recomputation as of the version that it consumed.

    Reads the rollup at the version of its ledger, so that a commit in between makes no difference.
    """
    table, rollup_table = context.table, _rollup_table(context, rollup)
    rollup_ledger = rollup_table.ledger()
    consumed = rollup_ledger.consumed
    statement = f"{rollup.name} equals a recomputation as of the version that it consumed"
    if consumed is None:
        return finding("rollup_equals_recomputation", [], f"{statement} (it has consumed no version yet)")
    merged, ledger = context.merged, ledger_of(context.settings, table.name)
    if not Consumption(ledger, consumed).has_source:
        problem = f"{table.name} was recreated or restored since then. Materialize {rollup.name} again."
        return finding("rollup_equals_recomputation", [problem], statement)
    if not is_as_declared(rollup_ledger, rollup):
        problem = f"The declaration of {rollup.name} changed since it was computed. Materialize it again."
        return finding("rollup_equals_recomputation", [problem], statement)
    upstream = Upstream(table, merged, ledger).as_of(consumed.version)
    try:
        problems = _differences(upstream, rollup, rollup_table.rows(rollup_ledger.version))
    except (PySparkException, Py4JJavaError) as error:
        if not is_version_gone(error):
            raise
        problem = f"Version {consumed.version} of {table.name} can no longer be read. Materialize {rollup.name} again."
        return finding("rollup_equals_recomputation", [problem], statement)
    return finding("rollup_equals_recomputation", problems, statement, _repair_advice(table, rollup_table.layout))


@spark_failures()
def verify_touched(context: TableContext, rollup: Rollup, update: Derived) -> Finding:
    """Check that the commit of an update stores the groups that it touched as they were computed, with one small read.

    Recomputes nothing, and reads nothing that was written later. ``verify_rollup`` checks the whole rollup.
    """
    check = "touched_groups_stored"
    statement = f"{rollup.name} stored the groups that the run touched as it computed them"
    if update.computed_groups is None:
        return finding(check, [], f"{statement} (it touched none)")
    rollup_table = _rollup_table(context, rollup)
    differing_groups = find_differing_groups(update.computed_groups, rollup_table.rows(update.version), rollup)
    advice = _repair_advice(context.table, rollup_table.layout)
    return finding(check, _describe_groups(differing_groups, rollup), statement, advice)


def _rollup_table(context: TableContext, rollup: Rollup) -> StoredTable:
    return StoredTable(context.spark, rollup_layout(context.table, rollup, context.settings))


def _differences(upstream: Upstream, rollup: Rollup, rows: DataFrame) -> list[str]:
    expected = recompute(upstream, rollup)
    stored_rows = rows.select(*expected.columns)
    groups = expected.exceptAll(stored_rows).union(stored_rows.exceptAll(expected)).select(*rollup.by).distinct()
    return _describe_groups(groups, rollup)


def _describe_groups(groups: DataFrame, rollup: Rollup) -> list[str]:
    rows = groups.select(*(F.col(c).cast("string") for c in rollup.by)).limit(_MAX_SHOWN).collect()
    return [f"Group {', '.join(str(value) for value in row)} differs." for row in rows]


def _repair_advice(table: StreamTable, rollup: Layout) -> str:
    return (
        f"Stop what writes {rollup.name} and delete its folder {rollup.uri}, or restore a version before the wrong"
        f" write; no record is lost. Then run lakehouse merge {table.name}, which computes {rollup.name} again."
        f" {restore_advice(rollup.uri)}"
    )


def rejected_share(ledger: Ledger, now: datetime | None = None) -> Finding:
    """Check that at most 1% of the records read in the last 24 hours are rejected, in at most 100 commits.

    Filtered records do not count. Earlier rejections do not count; ``lakehouse rejected`` lists those that are
    unresolved. If no batch was merged in this window, the check passes.
    """
    window_start = (now or datetime.now(UTC)) - _RECENT
    batches = (entry for entry in ledger.entries[:_COMMITS] if entry.commit.kind == "batch")
    recent_batches = [entry for entry in batches if entry.committed_at > window_start]
    if not recent_batches:
        return finding("rejected_share", [], "no batch was merged in the last 24 hours")
    counts = sums(recent_batches)
    read = sum(entry.commit.judged for entry in recent_batches) - counts["filtered"]
    share = counts["rejected"] / read if read else 0.0
    since = f"since {recent_batches[-1].committed_at:%Y-%m-%d %H:%M} UTC"
    statement = f"at most {_SHARE:.0%} of the records read {since} are rejected (last 24 hours, at most 100 commits)"
    problem = (
        f"{counts['rejected']} of {read} records were rejected ({share:.2%})."
        " To see their reasons, run: lakehouse rejected"
    )
    return finding("rejected_share", [problem] if share > _SHARE else [], statement)


def versions_decide(ledger: Ledger, now: datetime | None = None) -> Finding:
    """Check that no two records of a key had an equal version and other values, in the commits of the last 24 hours.

    Counts those of one batch, and those that met a stored row. The source then decides which is the row.
    """
    window_start = (now or datetime.now(UTC)) - _RECENT
    entries = (entry for entry in ledger.entries[:_COMMITS] if entry.commit.kind == "batch")
    count = sums(entry for entry in entries if entry.committed_at > window_start)["equal_versions"]
    problem = (
        f"{count:,} records have a key and a version that an earlier record of their batch or a row has, with other"
        " values. Their order in the source decided. Have the producer write a finer version, or declare one"
    )
    statement = "the version decides which record of a key is newer (last 24 hours, at most 100 commits)"
    return finding("versions_decide", [problem] if count else [], statement)


def producer_time(state: SourceState, table: StreamTable) -> Finding:
    """Check that no producer's clock decides which of two records is newer.

    Within a partition none does. Between partitions, that holds if the broker dates the records, if a version, the
    offset or the log of a database decides, or if the table is a log table.
    """
    is_ordered = table.version_columns or table.order == "offset" or table.has_changes or table.is_log
    is_safe = not state.producer_time or is_ordered
    problem = (
        f"Producers date the records of {state.stream}, so a producer's clock decides which of two records in"
        " different partitions is newer."
        " Set message.timestamp.type=LogAppendTime, or declare a version column or order='offset'."
    )
    return finding("producer_time", [] if is_safe else [problem], "no producer's clock decides which record is newer")


@spark_failures()
def verify_snapshot(context: TableContext) -> Finding:
    """Check that the newest snapshot of the whole table has every row that is older than it.

    A row that it does not have was deleted in the database, and its delete never arrived. Until a snapshot is read to
    its end, the check passes. Rows of other partitions than that of its end count once a later record was read there.
    """
    statement = "the newest snapshot has every row that is older than it"
    newest = context.ledger().newest
    end = newest.commit.snapshot_end if newest else None
    if end is None or end.sequence is None:
        return finding(ROWS_IN_SNAPSHOT, [], f"{statement} (none was read to its end, or its last record was rejected)")
    advice = (
        f"The database has deleted these rows, or their record in the snapshot was rejected: lakehouse rejected"
        f" {context.table.name}. To see them: lakehouse compare {context.table.name}."
    )
    times = context.merged.rows().groupBy(f"{RECORD}.partition").agg(F.max(f"{RECORD}.time").alias("time"))
    is_read = f"time >= timestamp_micros({end.time}L) OR partition = {end.partition}"
    partitions = [int(row[0]) for row in times.where(is_read).collect()]
    problems = find_rows(context, _is_missing(end, partitions)) if partitions else []
    return finding(ROWS_IN_SNAPSHOT, problems, statement, advice)


def _is_missing(end: RecordOrder, partitions: Sequence[int]) -> str:
    """Return the condition that a row is older than a snapshot, and that none of its records is newer by its place."""
    is_read = f"{RECORD}.partition IN ({', '.join(map(str, partitions))})"
    time = f"{RECORD}.time > timestamp_micros({end.time}L)"
    is_after = f"IF({RECORD}.partition = {end.partition}, {RECORD}.position > {end.position}L, {time})"
    is_newer = f"({RECORD}.source = {quoted(end.source or '')} AND {is_after})"
    return f"{is_read} AND {RECORD}.sequence < {end.sequence}L AND NOT {is_newer}"


@spark_failures()
def verify_values(context: TableContext) -> Finding:
    """Check that each NULL of a kept column was sent.

    Debezium does not send a long value that did not change. If no earlier record had it, the column is NULL, too. A
    NULL from before the column was kept counts as not sent.
    """
    kept_columns = {field.name for field in fields_of(context.merged.rows().schema[KEPT].dataType)}
    problems = list[str]()
    for name in (name for name in context.table.keep if name in kept_columns):
        condition = f"`{name}` IS NULL AND {KEPT}.`{name}`.position IS NULL"
        problems += find_rows(context, condition, f" has no value of {name}, because none was sent")
    advice = "Let Debezium take an incremental snapshot of these rows: its records have all values."
    return finding(VALUES_SENT, problems, "the value of each kept column was sent", advice)
