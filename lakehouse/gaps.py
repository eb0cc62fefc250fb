"""Gaps: whether a batch may go on behind records that are gone, and what the commit says that records it.

It holds the offsets that are gone and the progress behind them, and no row.
"""

from lakehouse.commits import Commit
from lakehouse.declaration import StreamTable
from lakehouse.errors import DataLossError
from lakehouse.ledger import Ledger
from lakehouse.offsets import Bounds, Gap, Plan, Progress, TopicState, plan_batch


def plan_table(table: StreamTable, state: TopicState, progress: Progress | None, bounds: Bounds) -> Plan:
    """Plan the next batch of a table; behind a gap where its declaration accepts gaps.

    Raises ``DataLossError``, which names every partition that lost records, where it does not.
    """
    plan = plan_batch(state, progress, bounds)
    if plan.gap and table.gaps == "stop":
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
            "topic": plan.topic,
            "incarnation": plan.incarnation,
            "progress": {part.partition: part.start for part in plan.ranges},
            "gap": plan.gap.ranges if plan.gap else (),
            "declaration": table.fingerprint,
        }
    )
