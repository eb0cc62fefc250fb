"""What a person decides when records or the ledger are gone: accept a gap, record the progress anew.

Each is a commit of its own in the ledger, an empty MERGE, so that the decision stays visible.
"""

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.commits import Entry
from lakehouse.declaration import StreamTable
from lakehouse.delta import read_table
from lakehouse.errors import DataLossError, LakehouseError
from lakehouse.ingest import merged_ledger
from lakehouse.ledger import Ledger, read_ledger
from lakehouse.merge import NOTHING, Target, merge_rows, merged_layout
from lakehouse.offsets import Progress, Range, TopicState, require_nothing_lost, require_same_topic
from lakehouse.settings import Settings
from lakehouse.topic import look


def accept_gap(spark: SparkSession, settings: Settings, table: StreamTable, run: str = "cli") -> Entry:
    """Go on behind records that are gone, and record which; raises ``LakehouseError`` where none are.

    Partitions that lost records go on at the earliest offset there is. Nothing that is still in the topic
    is stepped over: what was merged before is merged again, which changes nothing.
    """
    ledger = merged_ledger(settings, table)
    state = look(settings, table.topic)
    progress = ledger.progress
    if progress is None or not _is_lost(state, progress):
        raise LakehouseError("No record is missing: there is no gap to accept", where=f"topic {state.topic}")
    same = (progress.cluster_id, progress.topic_id) == (state.cluster_id, state.topic_id)
    known = progress.offsets if same else {}
    offsets = {p: _go_on(known.get(p), earliest, state.end[p]) for p, earliest in state.earliest.items()}
    gap = tuple(_gap(p, offset, state, same=same) for p, offset in sorted(progress.offsets.items()))
    return _record(spark, settings, table, ledger, (state, offsets, tuple(part for part in gap if part), run))


def _is_lost(state: TopicState, progress: Progress) -> bool:
    try:
        require_same_topic(state, progress)
        require_nothing_lost(state, progress)
    except DataLossError:
        return True
    return False


def _go_on(offset: int | None, earliest: int, end: int) -> int:
    return earliest if offset is None or not earliest <= offset <= end else offset


def _gap(partition: int, offset: int, state: TopicState, *, same: bool) -> Range | None:
    """The offsets that are gone; of a topic that is no more, from the progress on, no end is known."""
    if not same or partition not in state.end:
        return Range(partition, offset, offset)
    if offset < state.earliest[partition]:
        return Range(partition, offset, state.earliest[partition])
    return Range(partition, state.end[partition], offset) if offset > state.end[partition] else None


def propose_progress(
    spark: SparkSession, settings: Settings, table: StreamTable
) -> tuple[Ledger, TopicState, Mapping[int, int]]:
    """Propose a progress from the merged rows: one past the greatest offset of each partition.

    For a table whose log no longer tells. Never beyond the topic's end; a partition without rows starts
    at its earliest offset. Merging some records again changes nothing; rejected records never count.
    """
    layout = merged_layout(table, settings)
    state = look(settings, table.topic)
    rows = read_table(spark, layout).where("kafka_offset IS NOT NULL")
    greatest = rows.groupBy("kafka_partition").agg((F.max("kafka_offset") + 1).alias("next")).collect()
    seen = {row["kafka_partition"]: row["next"] for row in greatest}
    offsets = {p: min(max(seen.get(p, earliest), earliest), state.end[p]) for p, earliest in state.earliest.items()}
    return read_ledger(layout.uri, layout.name), state, offsets


def recover_progress(spark: SparkSession, settings: Settings, table: StreamTable, run: str = "cli") -> Entry:
    """Record the proposed progress as a commit of its own; the next batch goes on from it."""
    ledger, state, offsets = propose_progress(spark, settings, table)
    return _record(spark, settings, table, ledger, (state, offsets, (), run))


_Decision = tuple[TopicState, Mapping[int, int], tuple[Range, ...], str]


def _record(spark: SparkSession, settings: Settings, table: StreamTable, ledger: Ledger, decision: _Decision) -> Entry:
    state, offsets, gap, run = decision
    commit = ledger.next_commit("gap", run).model_copy(
        update={
            "cluster_id": state.cluster_id,
            "topic": state.topic,
            "topic_id": state.topic_id,
            "progress": dict(offsets),
            "gap": gap,
            "declaration": table.fingerprint,
        }
    )
    target = Target(table, merged_layout(table, settings))
    nothing = read_table(spark, target.layout).where("false")
    return merge_rows(spark, target, nothing, NOTHING, commit)
