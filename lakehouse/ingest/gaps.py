"""Gaps: whether a batch may go on behind records that are gone, and what the commit says that records it.

It holds the positions that are gone and the progress behind them, and no row.
"""

from dataclasses import replace

from lakehouse.declaration import StreamTable
from lakehouse.errors import DataLossError, DeclarationError
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Bounds, Gap, Plan, Progress, SourceState, find_expired, find_gap, plan_batch
from lakehouse.ledger.reached import beyond


def plan_next_of(ledger: Ledger, state: SourceState, bounds: Bounds) -> Plan:
    """Plan what a table merges next, with the gap before it.

    Where a RESTORE undid every batch, records that were merged may have expired: whatever did is a gap then. Where
    the topic was read before another one was, so is what is gone since.
    """
    plan = plan_batch(state, ledger.progress, bounds)
    if ledger.progress is None:
        return replace(plan, gap=find_expired(state)) if ledger.unread else plan
    former = ledger.reached.get(state.source.text)
    if plan.gap is None or former is None or ledger.progress.source == state.source:
        return plan
    since = find_gap(state, Progress(state.source, former)) or Gap((), ())
    return replace(plan, gap=Gap(plan.gap.facts + since.facts, plan.gap.ranges + since.ranges))


def plan_table(table: StreamTable, state: SourceState, ledger: Ledger, bounds: Bounds) -> Plan:
    """Plan the next batch of a table; behind a gap where it is of expired records and the declaration accepts those.

    Raises ``DataLossError``, which names every partition that lost records, behind any other, and ``DeclarationError``
    where the declared order would take new records for older than rows that are there.
    """
    require_comparable(table, ledger)
    plan = plan_next_of(ledger, state, bounds)
    if plan.gap and not (table.gaps == "accept" and plan.gap.expired):
        raise loss(plan.gap, table)
    return plan


def require_comparable(table: StreamTable, ledger: Ledger) -> None:
    """Raise ``DeclarationError`` where rows were read beyond the progress, and offsets alone decide which is newer.

    They are of a topic that is no more, of another one, or of a time from before the broker was rolled back.
    """
    if table.order != "offset" or ledger.progress is None:
        return
    now = {ledger.progress.source.text: dict(ledger.progress.positions)}
    if any(any(ends.values()) for ends in beyond(ledger.reached, now).values()):
        raise DeclarationError(
            f"Rows of {table.name} are of a topic that is no more, or of another one, or of records that a broker has"
            " lost: their offsets say nothing beside those of today's",
            where=f"topic {table.topic}",
            action='Declare order="timestamp", or a table of another name, which a merge fills from the topic.',
        )


def loss(gap: Gap, table: StreamTable) -> DataLossError:
    """The error of a gap that nobody has accepted."""
    action = f"If the loss is known and accepted, go on with: lakehouse accept-gap {table.name}"
    if not can_be_accepted(gap, table):
        action = (
            f"Offsets begin again there, and {table.name} is ordered by offset alone: what is merged from now on would"
            ' seem older than its rows. Declare order="timestamp" first, or declare a table of another name.'
        )
    return DataLossError("; ".join(gap.facts), where=f"topic {table.topic}", action=action)


def can_be_accepted(gap: Gap, table: StreamTable) -> bool:
    """Whether a person may accept a gap: where rows are ordered by offset alone, only that of expired records."""
    return gap.expired or table.order != "offset"


def gap_commit(ledger: Ledger, plan: Plan, run: str) -> Commit:
    """What a commit says that steps over the gap of a plan, up to where the plan begins; it reads nothing."""
    return ledger.next_commit("gap", run).with_fields(
        stream=plan.stream,
        source=plan.source,
        progress={part.partition: part.start for part in plan.ranges},
        reached=ledger.reached,
        gap=plan.gap.ranges if plan.gap else (),
    )
