"""Days of records: the offsets of the merged records of UTC days, and whether the topic still holds all of them.

The day of a record is that of its time in the topic. If the broker set the times, it finds the offsets. Otherwise the
records are read, because producers may set the times in any order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.decoding import staged
from lakehouse.errors import LakehouseError
from lakehouse.ingest.replay import find_merged_ranges, ranges_after
from lakehouse.ingest.staging import read_around_timeless
from lakehouse.ingest.topics import first_positions
from lakehouse.kafka import TimelessRecordError, first_records, offsets_at, read_failures, read_records
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, Positions, Range, SourceId, describe_deleted
from lakehouse.spark.own_session import rows_expected
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.table_context import TableContext, whole_ledger

_DAY = timedelta(days=1)


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
    settings, topic = context.settings, context.table.topic
    state, merged_ranges = find_merged_ranges(context)
    ranges = [part for part in merged_ranges.values() if part.span]
    records = first_records(settings, topic, ranges)
    times = {partition: record.time for partition, record in records.items() if record.time}
    starts = first_positions(context.ledger())
    expired_ends = {p: end for p, end in state.earliest.items() if end > starts.get(p, 0)}
    require_unexpired(context, state.source, expired_ends, times, min(days))
    if state.producer_time or any(record.producer_time for record in records.values()):
        day_ranges = list(_read_days(context, Plan(state.stream, state.source, tuple(ranges)), days))
        return join_ranges(
            part for period in join_consecutive_days(days) for part in ranges_of_period(day_ranges, period)
        )
    return join_ranges(
        part for period in join_consecutive_days(days) for part in _find_period_ranges(context, ranges, period)
    )


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
    groups = chosen_records.groupBy(staged.PARTITION, "day").agg(F.min(staged.POSITION), F.max(staged.POSITION))
    return [DayRange(*row) for row in groups.collect()]


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
