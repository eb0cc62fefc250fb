"""What a person decides when records or the ledger are gone: accept a gap, record the progress anew.

Each is a commit of its own in the ledger, an empty MERGE, so that the decision stays visible.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.commits import Entry
from lakehouse.declaration import StreamTable
from lakehouse.decode import decode_records
from lakehouse.delta import read_table
from lakehouse.errors import LakehouseError
from lakehouse.failures import table_failures
from lakehouse.gaps import commit_nothing, gap_commit
from lakehouse.ingest import merged_ledger
from lakehouse.ledger import Ledger, read_ledger
from lakehouse.merge import merged_layout
from lakehouse.offsets import Gap, Plan, Range, TopicState, find_gap, plan_batch
from lakehouse.settings import Settings
from lakehouse.topic import look, read_failures, read_records


def seen_gap(settings: Settings, table: StreamTable) -> Gap | None:
    """Look for records that are gone before they were merged, without a JVM; ``None`` where none are."""
    progress = merged_ledger(settings, table).progress
    return find_gap(look(settings, table.topic), progress)


def accept_gap(spark: SparkSession, settings: Settings, table: StreamTable, run: str = "cli") -> Entry:
    """Go on behind records that are gone, and record which; raises ``LakehouseError`` where none are.

    Partitions that lost records go on at the earliest offset there is. Nothing that is still in the topic
    is stepped over: what was merged before is merged again, which changes nothing.
    """
    ledger = merged_ledger(settings, table)
    plan = plan_batch(look(settings, table.topic), ledger.progress)
    if plan.gap is None:
        raise LakehouseError("No record is missing: there is no gap to accept", where=f"topic {table.topic}")
    return commit_nothing(spark, settings, table, gap_commit(ledger, table, plan, run))


@table_failures()
def propose_progress(
    spark: SparkSession, settings: Settings, table: StreamTable
) -> tuple[Ledger, TopicState, Mapping[int, int]]:
    """Propose a progress from the merged rows: one past the greatest offset of each partition.

    For a table whose log no longer tells. An offset counts only where the topic still holds the record that the
    row came from: rows of a former topic of that name have offsets too. Any other partition starts at its
    earliest offset; merging records again changes nothing. Rejected records never count.
    """
    layout = merged_layout(table, settings)
    state = look(settings, table.topic)
    newest = _newest_rows(read_table(spark, layout), table, state).localCheckpoint()
    seen = tuple(Range(row[0], row[1], row[1] + 1) for row in newest.collect())
    found: set[int] = set()
    if seen:
        plan = Plan(state.topic, state.incarnation, seen)
        with read_failures(plan, f"lakehouse recover-progress {table.name}"):
            records = decode_records(read_records(spark, settings, plan), table)
            found = {row[0] for row in records.join(newest, newest.columns).select("kafka_partition").collect()}
    next_offsets = {part.partition: part.end for part in seen if part.partition in found}
    return read_ledger(layout.uri, layout.name), state, {**state.earliest, **next_offsets}


def _newest_rows(rows: DataFrame, table: StreamTable, state: TopicState) -> DataFrame:
    """Of each partition the row with the greatest offset that the topic holds: position, timestamp and key."""
    within = (
        f"(kafka_partition = {p} AND kafka_offset >= {earliest} AND kafka_offset < {state.end[p]})"
        for p, earliest in state.earliest.items()
    )
    place = F.struct("kafka_offset", "kafka_timestamp", *table.key)
    newest = F.max_by(place, "kafka_offset").alias("newest")
    return rows.where(" OR ".join(within)).groupBy("kafka_partition").agg(newest).select("kafka_partition", "newest.*")


def recover_progress(spark: SparkSession, settings: Settings, table: StreamTable, run: str = "cli") -> Entry:
    """Record the proposed progress as a commit of its own; the next batch goes on from it."""
    ledger, state, offsets = propose_progress(spark, settings, table)
    nothing = tuple(Range(partition, offset, offset) for partition, offset in sorted(offsets.items()))
    plan = Plan(state.topic, state.incarnation, nothing)
    return commit_nothing(spark, settings, table, gap_commit(ledger, table, plan, run))
