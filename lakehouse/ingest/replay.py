"""Replays: merged records are read and merged again. The rows stay as they are, and the history has a commit."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from lakehouse.errors import LakehouseError
from lakehouse.ingest.batches import Request, prepare, run_batch
from lakehouse.ingest.gaps import data_loss_error
from lakehouse.ingest.kept_rejections import settle_rejections
from lakehouse.ingest.order_times import FormerTimes
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.topics import first_positions, split_context
from lakehouse.kafka import PATIENCE
from lakehouse.ledger.commit_values import LastRecords
from lakehouse.ledger.positions import Plan, Range, SourceState, find_gap, source_words
from lakehouse.sources.table_sources import source_of
from lakehouse.storage.table_context import TableContext, retry_on_conflict


def replay(context: TableContext, ranges: list[Range] | None = None, request: Request = Request()) -> list[Outcome]:
    """Merge ranges again that were merged before; ``None`` means all that the source still holds.

    What a table left out before its declared start was never merged, so it cannot be replayed. If the table reads
    several topics, ranges are of the one of the context; ``None`` means those of all.

    Each commit reads at most as many positions as the declaration or the request allows. It is recorded as a replay and
    changes neither the progress nor the rows. Raises ``LakehouseError`` for a range that is gone or was not merged yet.
    """
    retry_on_conflict(lambda: prepare(context))
    if ranges is None:
        parts = [part for part in split_context(context) if part.ledger().progress] or [context]
        outcomes = [outcome for part in parts for outcome in _replay_topic(part, None, request)]
        if not (context.table.topics and context.table.topic):  # all topics, not one of several
            retry_on_conflict(lambda: settle_rejections(context))
        return outcomes
    return _replay_topic(context, ranges, request)


def _replay_topic(context: TableContext, ranges: list[Range] | None, request: Request) -> list[Outcome]:
    limit = request.limit(context.table)
    state, merged_ranges = find_merged_ranges(context)
    former_times = FormerTimes.of(context, state) if _orders_by_time(context) else None
    replay_plans = _replay_plans(context, state, merged_ranges, ranges)
    plans = (part for plan in replay_plans for part in split_into_batches(state, plan, limit))
    return [outcome for plan in plans for outcome in _replay_plan(context, plan, former_times)]


def _orders_by_time(context: TableContext) -> bool:
    """Whether times order the records of a table, and may go back."""
    table = context.table
    has_other_order = table.is_log or table.has_changes or table.order == "offset"
    return not has_other_order and source_of(context.settings, table).times_may_go_back


def split_into_batches(state: SourceState, plan: Plan, limit: int) -> Iterator[Plan]:
    """Split a plan into plans of at most ``limit`` positions, in order; all partitions advance in each."""
    remaining_ranges = plan.ranges
    while sum(part.span for part in remaining_ranges):
        starts = {part.partition: part.start for part in remaining_ranges}
        shares = state.divide(starts, {part.partition: part.span for part in remaining_ranges}, limit)
        ranges = tuple(
            Range(part.partition, part.start, part.start + shares[part.partition]) for part in remaining_ranges
        )
        yield replace(plan, ranges=ranges)
        remaining_ranges = ranges_after(remaining_ranges, ranges)


def ranges_after(ranges: tuple[Range, ...], read_ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """Return what is left of ranges of which the beginnings were read."""
    return tuple(Range(part.partition, read.end, part.end) for part, read in zip(ranges, read_ranges, strict=True))


def _replay_plans(
    context: TableContext, state: SourceState, merged_ranges: dict[int, Range], ranges: list[Range] | None
) -> list[Plan]:
    """Check all ranges and return their plans; several if a partition has more than one range."""
    empty_ranges = {p: Range(p, part.end, part.end) for p, part in merged_ranges.items()}
    for part in ranges or []:
        merged_range = merged_ranges.get(part.partition)
        if merged_range is None or not merged_range.start <= part.start <= part.end <= merged_range.end:
            words, available = (
                source_words(state.source),
                f"{merged_range.start} to {merged_range.end}" if merged_range else "nothing",
            )
            raise LakehouseError(
                f"{words.position.capitalize()}s {part.start} to {part.end} of partition {part.partition} cannot be"
                " replayed",
                where=f"{words.source} {state.stream}",
                action=f"Of this partition, {available} is merged and still in the {words.source}."
                + _start_advice(context, part),
            )
    turns = [merged_ranges] if ranges is None else [empty_ranges | turn for turn in split_into_turns(ranges)]
    return [Plan(state.stream, state.source, tuple(turn[p] for p in sorted(turn))) for turn in turns]


def _start_advice(context: TableContext, part: Range) -> str:
    """Return how to merge a range that begins before the start of the table; empty for any other range."""
    if part.start >= first_positions(context.ledger()).get(part.partition, 0):
        return ""
    return (
        f" {context.table.name} left out what is before the start that it was declared with. To merge that too, declare"
        " a table with another name and an earlier start."
    )


def split_into_turns(ranges: Sequence[Range]) -> Iterator[dict[int, Range]]:
    """Yield groups of ranges in their order, each with at most one range of a partition."""
    remaining_ranges = list(ranges)
    while remaining_ranges:
        turn = {part.partition: part for part in reversed(remaining_ranges)}
        remaining_ranges = [part for part in remaining_ranges if part is not turn[part.partition]]
        yield turn


def find_merged_ranges(context: TableContext) -> tuple[SourceState, dict[int, Range]]:
    """Return the state of the source, and for each partition the merged range that it still holds, perhaps empty.

    Changes nothing. Raises ``LakehouseError`` if nothing was merged yet, and ``DataLossError`` for an open gap: its
    positions may belong to other records now.
    """
    table, ledger = context.table, context.ledger()
    progress = ledger.progress
    state = source_of(context.settings, table).read_state(ledger, PATIENCE)
    if progress is None:
        action = f"First run: lakehouse merge {table.name}"
        raise LakehouseError("Nothing has been merged yet", where=f"table {table.name}", action=action)
    gap = find_gap(state, progress)
    if gap:
        raise data_loss_error(gap, table)
    starts = first_positions(ledger)
    firsts = {p: max(earliest, starts.get(p, earliest)) for p, earliest in state.earliest.items()}
    return state, {p: Range(p, first, max(progress.positions.get(p, first), first)) for p, first in firsts.items()}


def _replay_plan(context: TableContext, plan: Plan, former_times: FormerTimes | None) -> Iterator[Outcome]:
    """Replay a plan in one commit, or in several if a commit merges only its beginning."""
    while plan.span:
        before = former_times.before(context, plan) if former_times else None
        outcome = retry_on_conflict(partial(_replay_batch, context, plan, before))
        yield outcome
        plan = replace(plan, ranges=ranges_after(plan.ranges, outcome.plan.ranges if outcome.plan else plan.ranges))


def _replay_batch(context: TableContext, plan: Plan, before: LastRecords | None) -> Outcome:
    start_time = time.monotonic()
    ledger = context.ledger()
    batch = run_batch(context, plan, ledger.next_commit("replay", context.run), ledger, before)
    return Outcome(batch.entry, batch.plan, 0, 0, time.monotonic() - start_time, unmapped_fields=batch.unmapped_fields)
