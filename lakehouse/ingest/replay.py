"""What was merged, read and merged again: the table stays as it is, and the history says that it happened."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from lakehouse.declaration import StreamTable
from lakehouse.errors import LakehouseError
from lakehouse.ingest.batches import Outcome, Request, prepare, run_batch
from lakehouse.ingest.gaps import loss
from lakehouse.kafka import PATIENCE, look
from lakehouse.ledger.positions import Plan, Progress, Range, SourceState, find_gap, share_out, words_of
from lakehouse.storage.table_context import TableContext, again


def replay(context: TableContext, ranges: list[Range] | None = None, request: Request = Request()) -> list[Outcome]:
    """Merge ranges again that have been merged before; ``None`` means all that the source still holds.

    Each commit takes at most as many positions as the declaration allows, or as the request asks for, records
    that it is a replay and moves no progress; rows stay as they are. Raises
    ``LakehouseError`` for a range that was not merged yet or is gone.
    """
    again(lambda: prepare(context))
    limit = request.limit(context.table)
    plans = (part for plan in _replay_plans(context, ranges) for part in in_batches(plan, limit))
    return [outcome for plan in plans for outcome in _replayed(context, plan)]


def in_batches(plan: Plan, limit: int) -> Iterator[Plan]:
    """Cut a plan into plans of at most so many positions, in order; all partitions advance in each."""
    left = plan.ranges
    while sum(part.span for part in left):
        taken = share_out({part.partition: part.span for part in left}, limit)
        now = tuple(Range(part.partition, part.start, part.start + taken[part.partition]) for part in left)
        yield replace(plan, ranges=now)
        left = _left(left, now)


def _left(ranges: tuple[Range, ...], done: tuple[Range, ...]) -> tuple[Range, ...]:
    return tuple(Range(part.partition, begun.end, part.end) for part, begun in zip(ranges, done, strict=True))


def _replay_plans(context: TableContext, ranges: list[Range] | None) -> list[Plan]:
    """The plans of all ranges, each checked; several where a partition has more than one range."""
    progress = context.ledger().progress
    state = look(context.settings, context.table.topic, PATIENCE)
    if progress is None:
        raise LakehouseError("Nothing has been merged yet", where=context.table.name, action="Merge it first.")
    merged = _merged_ranges(context.table, state, progress)
    nothing = {p: Range(p, part.end, part.end) for p, part in merged.items()}
    for part in ranges or []:
        there = merged.get(part.partition)
        if there is None or not there.start <= part.start <= part.end <= there.end:
            words, held = words_of(state.source), f"{there.start} to {there.end}" if there else "nothing"
            raise LakehouseError(
                f"{words.position.capitalize()}s {part.start} to {part.end} of partition {part.partition} cannot be"
                " replayed",
                where=f"{words.source} {state.stream}",
                action=f"Of this partition, {held} is merged and still in the {words.source}.",
            )
    turns = [merged] if ranges is None else [nothing | turn for turn in in_turns(ranges)]
    return [Plan(state.stream, state.source, tuple(turn[p] for p in sorted(turn))) for turn in turns]


def in_turns(ranges: Sequence[Range]) -> Iterator[dict[int, Range]]:
    """Give ranges in turns, each with at most one range of a partition, in their order."""
    left = list(ranges)
    while left:
        turn = {part.partition: part for part in reversed(left)}
        left = [part for part in left if part is not turn[part.partition]]
        yield turn


def _merged_ranges(table: StreamTable, state: SourceState, progress: Progress) -> dict[int, Range]:
    """What of a source is merged and still there; where a gap is open, its positions may hold other records now."""
    gap = find_gap(state, progress)
    if gap:
        raise loss(gap, table)
    return {p: Range(p, first, max(progress.positions.get(p, first), first)) for p, first in state.earliest.items()}


def _replayed(context: TableContext, plan: Plan) -> Iterator[Outcome]:
    """Replay a plan in one commit, in several where one merges only its beginning."""
    while plan.span:
        outcome = again(partial(_replay_batch, context, plan))
        yield outcome
        plan = replace(plan, ranges=_left(plan.ranges, outcome.plan.ranges if outcome.plan else plan.ranges))


def _replay_batch(context: TableContext, plan: Plan) -> Outcome:
    started = time.monotonic()
    ledger = context.ledger()
    ran = run_batch(context, plan, ledger.next_commit("replay", context.run), ledger)
    return Outcome(ran.entry, ran.plan, 0, 0, time.monotonic() - started, others=ran.others)
