"""Checks of the data itself: keys, rollups, the share of rejected records, who dates the records."""

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
from lakehouse.derived.changes import Derived, Upstream
from lakehouse.derived.rollup import differing, is_as_declared, recompute, rollup_layout
from lakehouse.errors.causes import error_text
from lakehouse.errors.troubles import is_gone
from lakehouse.kafka import TopicState
from lakehouse.ledger.accounting import sums
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.storage.layout import Layout
from lakehouse.storage.row_order import identity
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext

_OF_A_CONDITION = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    SparkRuntimeException,
)
_RECENT = timedelta(hours=24)  # in which the share of rejected records is judged
_COMMITS = 100  # the newest, which are read anyway
_SHOWN = 5  # rows named in a failed check


@spark_failures()
def verify_keys(context: TableContext) -> Finding:
    """Check that no key stands twice in the merged table, nor a record in a log table, and each in its partition.

    A row in another partition is not found when its key comes again, and would then stand twice.
    """
    table, rows = context.table, context.merged.rows()
    counted = rows.groupBy(*map(F.expr, identity(table))).agg(F.count("*").alias("_count")).where("_count > 1")
    doubled = counted.select(*(F.col(name).cast("string") for name in counted.columns)).limit(_SHOWN).collect()
    problems = [f"Key {', '.join(map(str, row[:-1]))} stands {row[-1]} times." for row in doubled]
    if table.partition_by:
        elsewhere = rows.where(f"NOT (`{table.partition_by.name}` <=> {table.partition_by.expression})")
        astray = elsewhere.select(*_shown_identity(table), table.partition_by.name).limit(_SHOWN).collect()
        problems += [f"Key {', '.join(map(str, row[:-1]))} stands in the partition {row[-1]}." for row in astray]
    advice = (
        f"RESTORE a version before the write that did it (lakehouse audit {table.name} lists them), then merge:"
        f" lakehouse merge {table.name} goes on where that version was and reads again what the topic still holds."
    )
    return finding("keys_unique", problems, "every key stands once", advice)


def _shown_identity(table: StreamTable) -> list[Column]:
    """What tells a row from others, as text."""
    return [F.expr(part).cast("string") for part in identity(table)]


@spark_failures()
def verify_rows(context: TableContext, check: Check) -> Finding:
    """Check that every row of the merged table is as a declared check expects it.

    A condition that Spark cannot read, or not compute of a row, is a check that fails, and says why.
    """
    table, rows = context.table, context.merged.rows()
    try:
        wrong = rows.where(f"NOT ({check.sql}\n)")
        some = wrong.select(*_shown_identity(table)).limit(_SHOWN).collect()
        many = wrong.count() if some else 0
    except _OF_A_CONDITION as error:
        problem = f"It cannot be computed: {error_text(error).splitlines()[0]}."
        return finding(check.name, [problem], check.sql, "Correct the check in the declaration.")
    advice = f"Rows that do not pass: {many}."
    return finding(check.name, [f"Row {', '.join(map(str, row))}." for row in some], check.sql, advice if some else "")


@spark_failures()
def verify_rollup(context: TableContext, rollup: Rollup) -> Finding:
    """Check that a rollup equals a recomputation as of the version it has consumed.

    The rollup is read as its ledger was, so that a commit in between is no difference.
    """
    table, stored = context.table, _stored(context, rollup)
    own = stored.ledger()
    consumed = own.consumed
    fact = f"{rollup.name} equals a recomputation as of the version it consumed"
    if consumed is None:
        return finding("rollup_equals_recomputation", [], f"{fact} (it has consumed none yet)")
    merged, ledger = context.merged, ledger_of(context.settings, table.name)
    if ledger.table_id != consumed.table_id:
        problem = f"{table.name} was made anew since: materialize {rollup.name} again."
        return finding("rollup_equals_recomputation", [problem], fact)
    if not is_as_declared(own, rollup):
        problem = f"{rollup.name} is declared otherwise than it was made: materialize it again."
        return finding("rollup_equals_recomputation", [problem], fact)
    upstream = Upstream(table, merged, ledger).as_of(consumed.version)
    try:
        problems = _differences(upstream, rollup, stored.rows(own.version))
    except (PySparkException, Py4JJavaError) as error:
        if not is_gone(error):
            raise
        problem = f"Version {consumed.version} can no longer be read: materialize {rollup.name} again."
        return finding("rollup_equals_recomputation", [problem], fact)
    return finding("rollup_equals_recomputation", problems, fact, _made_right(table, stored.layout))


@spark_failures()
def verify_touched(context: TableContext, rollup: Rollup, done: Derived) -> Finding:
    """Check that the commit of an update holds the groups it touched as they were computed: one small read.

    Nothing is computed again, and nothing is read of what others wrote since: that is what ``verify_rollup`` is for.
    """
    check, fact = "touched_groups_stored", f"{rollup.name} stored the groups that the run touched as it computed them"
    if done.written is None:
        return finding(check, [], f"{fact} (it touched none)")
    stored = _stored(context, rollup)
    wrong = differing(done.written, stored.rows(done.version), rollup)
    return finding(check, _named(wrong, rollup), fact, _made_right(context.table, stored.layout))


def _stored(context: TableContext, rollup: Rollup) -> StoredTable:
    return StoredTable(context.spark, rollup_layout(context.table, rollup, context.settings))


def _differences(upstream: Upstream, rollup: Rollup, rows: DataFrame) -> list[str]:
    expected = recompute(upstream, rollup)
    stored = rows.select(*expected.columns)
    wrong = expected.exceptAll(stored).union(stored.exceptAll(expected)).select(*rollup.by).distinct()
    return _named(wrong, rollup)


def _named(wrong: DataFrame, rollup: Rollup) -> list[str]:
    """Some of the groups that differ."""
    rows = wrong.select(*(F.col(c).cast("string") for c in rollup.by)).limit(_SHOWN).collect()
    return [f"Group {', '.join(str(value) for value in row)} differs." for row in rows]


def _made_right(table: StreamTable, rollup: Layout) -> str:
    return (
        f"RESTORE {rollup.name} to a version before the write that did it, or delete its folder {rollup.uri}: no record"
        f" is lost with it. Then materialize {rollup.name}: it is computed from {table.name}."
    )


def rejected_share(ledger: Ledger, now: datetime | None = None, most: float = 0.01) -> Finding:
    """Check that few records are rejected of those that were read in the last 24 hours, in a hundred commits at most.

    What was rejected before is no alarm any more; ``lakehouse rejected`` tells what of it is still out. Without such a
    batch there is nothing to judge, and the check passes.
    """
    after = (now or datetime.now(UTC)) - _RECENT
    batches = (entry for entry in ledger.entries[:_COMMITS] if entry.commit.kind == "batch")
    recent = [entry for entry in batches if entry.committed_at > after]
    if not recent:
        return finding("rejected_share", [], "no batch was merged in the last 24 hours")
    told = sums(recent)
    share = told["rejected"] / told["read"] if told["read"] else 0.0
    since = f"since {recent[-1].committed_at:%Y-%m-%d %H:%M} UTC"
    fact = f"at most {most:.0%} of the records read {since} are rejected (the last 24 hours, a hundred commits at most)"
    problem = f"{told['rejected']} of {told['read']} records were rejected ({share:.2%}): see their reasons."
    return finding("rejected_share", [problem] if share > most else [], fact)


def producer_time(state: TopicState, table: StreamTable) -> Finding:
    """Check that the broker dates the records, or that something else decides, or nothing is newer as in a log."""
    safe = not state.producer_time or table.version or table.order == "offset" or table.is_log
    problem = (
        f"Producers date the records of {state.stream}: a producer's clock decides which record is newer."
        " Set message.timestamp.type=LogAppendTime, or declare a version column or order='offset'."
    )
    return finding("producer_time", [] if safe else [problem], "no producer's clock decides which record is newer")
