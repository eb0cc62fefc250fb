"""Replays: merged records, of ranges or of days, are read and merged again.

The day of a record is that of its time in the topic. If the broker set the times, it finds the offsets. Otherwise the
records are read, because producers may set the times in any order.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.decoding import staged
from lakehouse.errors import LakehouseError
from lakehouse.ingest.batches import Request, merge_base_rows, prepare, run_batch
from lakehouse.ingest.correction import settle_outdated
from lakehouse.ingest.gaps import data_loss_error
from lakehouse.ingest.order_times import FormerTimes
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.rejections import settle_rejections
from lakehouse.ingest.staging import read_around_timeless
from lakehouse.ingest.topics import first_positions, split_context
from lakehouse.kafka import PATIENCE, TimelessRecordError, first_records, offsets_at, read_failures, read_records
from lakehouse.ledger.commit_values import LastRecords
from lakehouse.ledger.commits import Kind
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import (
    Plan,
    Positions,
    Range,
    SourceId,
    SourceState,
    describe_deleted,
    find_gap,
    source_words,
)
from lakehouse.sources.table_sources import source_of
from lakehouse.spark.own_session import rows_expected
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.table_context import TableContext, retry_on_conflict, whole_ledger

_DAY = timedelta(days=1)


def replay(
    context: TableContext, ranges: list[Range] | None = None, request: Request = Request(), kind: Kind = "replay"
) -> list[Outcome]:
    """Merge ranges again that were merged before; ``None`` means all that the source still holds.

    What a table left out before its declared start was never merged, so it cannot be replayed. If the table reads
    several topics, ranges are of the one of the context; ``None`` means those of all.

    Each commit reads at most as many positions as the declaration or the request allows. It is recorded as a replay and
    changes neither the progress nor the rows. Raises ``LakehouseError`` for a range that is gone or was not merged yet.
    """
    retry_on_conflict(lambda: prepare(context))
    if ranges is None:
        parts = [part for part in split_context(context) if part.ledger().progress] or [context]
        outcomes = [outcome for part in parts for outcome in _replay_topic(part, None, request, kind)]
        if not (context.table.topics and context.table.topic):  # all topics, not one of several
            retry_on_conflict(lambda: settle_rejections(context))
        return outcomes
    return _replay_topic(context, ranges, request, kind)


def read_again(
    context: TableContext, ranges: Mapping[str, list[Range] | None] | None = None, request: Request = Request()
) -> list[Outcome]:
    """Read merged records again by the declaration of now, and correct what is stored of them.

    ``ranges`` are those of topics, by name; ``None`` means all. A stored row of a record that is read is replaced where
    values differ, and removed if the record gives its key no row any more. Rows of other records stay, unless a record
    that passes now is newer. A second run corrects nothing. After a crash, a run completes it.
    """
    parts = [part for part in split_context(context) if ranges is None or part.table.topic in ranges]
    parts = [part for part in parts if part.ledger().progress] or parts[:1]
    ranges_by_topic = dict.fromkeys((part.table.topic for part in parts), None) if ranges is None else ranges
    corrections = (replay(part, ranges_by_topic[part.table.topic], request, "correction") for part in parts)
    outcomes = [outcome for topic_outcomes in corrections for outcome in topic_outcomes]
    read_plans = [outcome.plan for outcome in outcomes if outcome.plan]
    if not context.table.is_log and (ranges is not None or len(outcomes) > 1):
        # a record that was not read in the same commit may be the newest one of a key, or of a kept value, by now
        outcomes += replay(context, None, request)
    base_outcome = retry_on_conflict(lambda: merge_base_rows(context)) if context.table.base else None
    retry_on_conflict(lambda: settle_outdated(context, read_plans))
    return [*outcomes, *([base_outcome] if base_outcome else [])]


def _replay_topic(context: TableContext, ranges: list[Range] | None, request: Request, kind: Kind) -> list[Outcome]:
    limit = request.limit(context.table)
    state, merged_ranges = find_merged_ranges(context)
    former_times = FormerTimes.of(context, state) if _orders_by_time(context) else None
    plans = _replay_plans(context, state, merged_ranges, ranges)
    batch_plans = (part for plan in plans for part in split_into_batches(state, plan, limit))
    return [outcome for plan in batch_plans for outcome in _replay_plan(context, plan, former_times, kind)]


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
            words = source_words(state.source)
            available = f"{merged_range.start} to {merged_range.end}" if merged_range else "nothing"
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


def _replay_plan(context: TableContext, plan: Plan, former_times: FormerTimes | None, kind: Kind) -> Iterator[Outcome]:
    """Replay a plan in one commit, or in several if a commit merges only its beginning."""
    while plan.span:
        before = former_times.before(context, plan) if former_times else None
        outcome = retry_on_conflict(partial(_replay_batch, context, plan, before, kind))
        yield outcome
        plan = replace(plan, ranges=ranges_after(plan.ranges, outcome.plan.ranges if outcome.plan else plan.ranges))


def _replay_batch(context: TableContext, plan: Plan, before: LastRecords | None, kind: Kind) -> Outcome:
    start_time = time.monotonic()
    ledger = context.ledger()
    batch = run_batch(context, plan, ledger.next_commit(kind, context.run), ledger, before)
    return Outcome(batch.entry, batch.plan, 0, 0, time.monotonic() - start_time, unmapped_fields=batch.unmapped_fields)


class Period(NamedTuple):
    """UTC days in a row: the first one, and the day after the last one."""

    first: date
    end: date


class DayRange(NamedTuple):
    """The records of one UTC day in one partition: the offset of the first one, and of the last one."""

    partition: int
    day: date
    first: int
    last: int


@spark_failures()
def find_ranges(context: TableContext, days: Collection[date]) -> list[Range]:
    """Return ranges that contain every merged record of these UTC days; none for days without records.

    If producers set the times, this reads all merged records that the topic holds. A range then reaches from the first
    to the last record of days in a row, so it may contain records of other days. Changes nothing. Raises
    ``LakehouseError`` if records of the first day may have expired, and the errors of ``find_merged_ranges``.
    """
    state, merged_ranges = find_merged_ranges(context)
    ranges = [part for part in merged_ranges.values() if part.span]
    records = first_records(context.settings, context.table.topic, ranges)
    times = {partition: record.time for partition, record in records.items() if record.time}
    starts = first_positions(context.ledger())
    expired_ends = {p: end for p, end in state.earliest.items() if end > starts.get(p, 0)}
    require_unexpired(context, state.source, expired_ends, times, min(days))
    periods = join_consecutive_days(days)
    if state.producer_time or any(record.producer_time for record in records.values()):
        day_ranges = list(_read_days(context, Plan(state.stream, state.source, tuple(ranges)), days))
        return join_ranges(part for period in periods for part in ranges_of_period(day_ranges, period))
    return join_ranges(part for period in periods for part in _find_period_ranges(context, ranges, period))


def require_unexpired(
    context: TableContext, source: SourceId, earliest: Positions, times: Mapping[int, datetime], first_day: date
) -> None:
    """Raise ``LakehouseError`` if records of ``first_day`` or a later day may have expired.

    ``times`` are the times of the first records that the topic holds, by partition. Expired records are older than the
    first record that is left, and older than the commit after which they were merged. If producers set the times, both
    are estimates.
    """
    start = _start_of(first_day)
    suspects = {p: end for p, end in earliest.items() if end and not (p in times and times[p] < start)}
    if not suspects:
        return
    ledger = whole_ledger(context.settings, context.table)
    limits = {p: _limit_of(p, end, ledger, source, times) for p, end in sorted(suspects.items())}
    expired_limits = {p: limit for p, limit in limits.items() if limit >= start}
    if expired_limits:
        facts = "; ".join(describe_deleted(Range(partition, 0, earliest[partition])) for partition in expired_limits)
        raise LakehouseError(
            f"{facts}, perhaps with records of {first_day}",
            where=context.table.place_text,
            action=f"{context.table.name} keeps their rows, and they cannot be replayed. Replay days from"
            f" {max(expired_limits.values()).date() + _DAY} on.",
        )


def _limit_of(partition: int, end: int, ledger: Ledger, source: SourceId, times: Mapping[int, datetime]) -> datetime:
    """A time at which all records before ``end`` were in the topic."""
    merged_at = [
        entry.committed_at
        for entry in ledger.entries
        if entry.commit.source == source and (entry.commit.progress or {}).get(partition, 0) >= end
    ]
    return min([datetime.now(UTC), *merged_at, *([times[partition]] if partition in times else [])])


def join_consecutive_days(days: Collection[date]) -> list[Period]:
    """Combine days in a row, in order."""
    periods: list[Period] = []
    for day in sorted(set(days)):
        if periods and periods[-1].end == day:
            periods[-1] = Period(periods[-1].first, day + _DAY)
        else:
            periods.append(Period(day, day + _DAY))
    return periods


def ranges_of_period(day_ranges: Sequence[DayRange], period: Period) -> Iterator[Range]:
    """Yield for each partition the range from the first to the last record of a period."""
    parts = [part for part in day_ranges if period.first <= part.day < period.end]
    for partition in sorted({part.partition for part in parts}):
        partition_parts = [part for part in parts if part.partition == partition]
        yield Range(
            partition, min(part.first for part in partition_parts), max(part.last for part in partition_parts) + 1
        )


def join_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges without empty ones, in order; ranges of a partition that overlap or touch become one."""
    joined_ranges: list[Range] = []
    for part in sorted(part for part in ranges if part.span):
        if joined_ranges and joined_ranges[-1].partition == part.partition and part.start <= joined_ranges[-1].end:
            joined_ranges[-1] = replace(joined_ranges[-1], end=max(joined_ranges[-1].end, part.end))
        else:
            joined_ranges.append(part)
    return joined_ranges


def _find_period_ranges(context: TableContext, ranges: Sequence[Range], period: Period) -> Iterator[Range]:
    """Ask the broker for the ranges of a period, within these ranges."""
    partitions = [part.partition for part in ranges]
    starts, ends = (offsets_at(context.settings, context.table.topic, partitions, _start_of(day)) for day in period)
    for part in ranges:
        start, end = (
            min(max(positions.get(part.partition, part.end), part.start), part.end) for positions in (starts, ends)
        )
        yield Range(part.partition, start, max(start, end))


def _read_days(context: TableContext, plan: Plan, days: Collection[date]) -> Iterator[DayRange]:
    """Read the times of all records of a plan; yield the ranges of these days."""
    command = f"lakehouse replay {context.table.name}"
    while plan.span:
        read_plan = plan
        with rows_expected(context.spark, plan.span):
            try:
                with read_failures(plan, command):
                    day_ranges = _group_by_day(read_records(context.spark, context.settings, plan), days)
            except TimelessRecordError as error:
                read_plan, records = read_around_timeless(context, plan, error)
                with read_failures(read_plan, command):
                    day_ranges = _group_by_day(records, days)
        yield from day_ranges
        plan = replace(plan, ranges=ranges_after(plan.ranges, read_plan.ranges))


def _group_by_day(records: DataFrame, days: Collection[date]) -> list[DayRange]:
    """Return the first and the last offset of each partition and day, from the first to the last of these days."""
    dated_records = records.selectExpr(staged.PARTITION, staged.POSITION, f"CAST({staged.TIME} AS DATE) AS day")
    chosen_records = dated_records.where(f"day BETWEEN DATE '{min(days)}' AND DATE '{max(days)}'")
    ends = F.min(staged.POSITION), F.max(staged.POSITION)
    return [DayRange(*row) for row in chosen_records.groupBy(staged.PARTITION, "day").agg(*ends).collect()]


def _start_of(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC)
