"""Checks of the data itself: keys, rollups, the share of rejected records, who dates the records."""

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.delta.audit import Finding, finding
from lakehouse.delta.failures import table_failures
from lakehouse.delta.layout import Layout
from lakehouse.delta.ledger import Ledger, read_ledger
from lakehouse.delta.order import merged_layout
from lakehouse.delta.write import read_table
from lakehouse.derive.changes import Derived, Upstream
from lakehouse.derive.rollup import differing, is_as_declared, recompute, rollup_layout
from lakehouse.errors.troubles import Trouble, means
from lakehouse.settings import Settings
from lakehouse.topic.offsets import TopicState

_SHOWN = 5  # rows named in a failed check


@table_failures()
def verify_keys(spark: SparkSession, settings: Settings, table: StreamTable) -> Finding:
    """Check that no key stands twice in the merged table."""
    rows = read_table(spark, merged_layout(table, settings))
    columns = [F.col(name).cast("string") for name in table.key]
    counted = rows.groupBy(*table.key).agg(F.count("*").alias("_count")).where("_count > 1")
    doubled = counted.select(*columns, "_count").limit(_SHOWN).collect()
    problems = [f"Key {', '.join(row[:-1])} stands {row[-1]} times." for row in doubled]
    if problems:
        problems.append(f"Restore a version before the write that did it (lakehouse audit {table.name} lists them).")
    return finding("keys_unique", problems, "every key stands once")


@table_failures()
def verify_rollup(spark: SparkSession, settings: Settings, table: StreamTable, rollup: Rollup) -> Finding:
    """Check that a rollup equals a recomputation as of the version it has consumed."""
    layout = rollup_layout(table, rollup, settings)
    own = read_ledger(layout.uri, layout.name)
    consumed = own.source
    fact = f"{rollup.name} equals a recomputation as of the version it consumed"
    if consumed is None:
        return finding("rollup_equals_recomputation", [], f"{fact} (it has consumed none yet)")
    merged = merged_layout(table, settings)
    ledger = read_ledger(merged.uri, merged.name)
    if ledger.table_id != consumed.table_id:
        problem = f"{table.name} was made anew since: materialize {rollup.name} again."
        return finding("rollup_equals_recomputation", [problem], fact)
    if not is_as_declared(own, rollup):
        problem = f"{rollup.name} is declared otherwise than it was made: materialize it again."
        return finding("rollup_equals_recomputation", [problem], fact)
    upstream = Upstream(table, merged, ledger).as_of(consumed.version)
    try:
        problems = _differences(spark, upstream, rollup, layout)
    except (PySparkException, Py4JJavaError) as error:
        if not means(error, Trouble.GONE):
            raise
        problems = [f"Version {consumed.version} can no longer be read: materialize {rollup.name} again."]
    return finding("rollup_equals_recomputation", problems, fact)


@table_failures()
def verify_touched(
    spark: SparkSession, settings: Settings, table: StreamTable, rollup: Rollup, done: Derived
) -> Finding:
    """Check that the groups which an update touched stand in the rollup as they were computed: one small read."""
    check, fact = (
        "touched_groups_equal_recomputation",
        f"{rollup.name} holds the groups that the run touched as computed",
    )
    if done.written is None:
        return finding(check, [], f"{fact} (it touched none)")
    layout = rollup_layout(table, rollup, settings)
    return finding(check, _named(differing(done.written, read_table(spark, layout), rollup), rollup, layout), fact)


def _differences(spark: SparkSession, upstream: Upstream, rollup: Rollup, layout: Layout) -> list[str]:
    expected = recompute(spark, upstream, rollup)
    stored = read_table(spark, layout).select(*expected.columns)
    wrong = expected.exceptAll(stored).union(stored.exceptAll(expected)).select(*rollup.by).distinct()
    return _named(wrong, rollup, layout)


def _named(wrong: DataFrame, rollup: Rollup, layout: Layout) -> list[str]:
    """Some of the groups that differ, and what to do."""
    rows = wrong.select(*(F.col(c).cast("string") for c in rollup.by)).limit(_SHOWN).collect()
    problems = [f"Group {', '.join(str(value) for value in row)} differs." for row in rows]
    return [*problems, f"Delete {layout.uri} and materialize {rollup.name} again."] if problems else []


def rejected_share(ledger: Ledger, most: float = 0.01) -> Finding:
    """Check that the share of rejected records among those read stays small."""
    totals = ledger.totals
    share = totals.rejected / totals.read if totals.read else 0.0
    problem = f"{totals.rejected} of {totals.read} records were rejected ({share:.2%}): see their reasons."
    return finding("rejected_share", [problem] if share > most else [], f"at most {most:.0%} of records are rejected")


def producer_time(state: TopicState, table: StreamTable) -> Finding:
    """Check that the broker dates the records, or that something else decides which is newer."""
    safe = not state.producer_time or table.version or table.order == "offset"
    problem = (
        f"Producers date the records of {state.topic}: a producer's clock decides which record is newer."
        " Set message.timestamp.type=LogAppendTime, or declare a version column or order='offset'."
    )
    return finding("producer_time", [] if safe else [problem], "no producer's clock decides which record is newer")
