"""Gaps: whether a batch may go on behind records that are gone, and the commit that records it.

The commit is an empty MERGE in the merged table: it holds the offsets that are gone and the progress behind
them, and no row.
"""

from pyspark.sql import SparkSession

from lakehouse.commits import Commit, Entry
from lakehouse.declaration import StreamTable
from lakehouse.delta import read_table
from lakehouse.errors import DataLossError
from lakehouse.ledger import Ledger
from lakehouse.merge import NOTHING, Target, merge_rows, merged_layout
from lakehouse.offsets import Bounds, Gap, Plan, Progress, TopicState, plan_batch
from lakehouse.settings import Settings


def plan_table(table: StreamTable, state: TopicState, progress: Progress | None, bounds: Bounds) -> Plan:
    """Plan the next batch of a table; behind a gap where it is of expired records and the declaration accepts those.

    Raises ``DataLossError``, which names every partition that lost records, behind any other.
    """
    plan = plan_batch(state, progress, bounds)
    if plan.gap and not (table.gaps == "accept" and plan.gap.expired):
        raise loss(plan.gap, table)
    return plan


def loss(gap: Gap, table: StreamTable) -> DataLossError:
    """The error of a gap that nobody has accepted."""
    action = f"If the loss is known and accepted, go on with: lakehouse accept-gap {table.name}"
    return DataLossError("; ".join(gap.facts), where=f"topic {table.topic}", action=action)


def gap_commit(ledger: Ledger, table: StreamTable, plan: Plan, run: str) -> Commit:
    """What a commit says that steps over the gap of a plan, up to where the plan begins; it reads nothing."""
    return ledger.next_commit("gap", run).model_copy(
        update={
            "cluster_id": plan.cluster_id,
            "topic": plan.topic,
            "topic_id": plan.topic_id,
            "progress": {part.partition: part.start for part in plan.ranges},
            "gap": plan.gap.ranges if plan.gap else (),
            "declaration": table.fingerprint,
        }
    )


def commit_nothing(spark: SparkSession, settings: Settings, table: StreamTable, commit: Commit) -> Entry:
    """Make a commit that holds no row: an empty MERGE, which Delta writes all the same."""
    target = Target(table, merged_layout(table, settings))
    nothing = read_table(spark, target.layout).where("false")
    return merge_rows(spark, target, nothing, NOTHING, commit)
