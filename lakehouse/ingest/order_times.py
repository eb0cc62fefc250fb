"""The times by which the records of a topic are ordered: of a partition, they never go back.

The clock of a broker may go back, and so may those of producers. A record whose time is before that of an earlier
record of its partition is ordered by the greatest time before it, so that the later of two records of a partition is
the newer one. Its own time stays what it is. Each commit names the greatest time of each partition.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.window import Window

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.ingest.staging import read_around_timeless
from lakehouse.ingest.topics import first_positions
from lakehouse.kafka import TimelessRecordError, read_failures, read_records
from lakehouse.ledger.commit_infos import of_stream
from lakehouse.ledger.commit_values import LastRecord, LastRecords
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, Range, SourceId, SourceState
from lakehouse.spark.own_session import VERY_FEW_ROWS
from lakehouse.storage.table_context import TableContext, whole_ledger

_log = logging.getLogger(__name__)
_PLACE = (staged.PARTITION, staged.POSITION)
_BEFORE = Window.unboundedPreceding, -1


class OrderedRecords(NamedTuple):
    """Staged records with their times of order, the last one of each partition, and how many times went back."""

    records: DataFrame
    last_records: LastRecords
    times_back: int = 0


def order_records(records: DataFrame, table: StreamTable, before: LastRecords, span: int) -> OrderedRecords:
    """Give the staged records of a topic their times of order; ``before`` are the last records before them.

    One statement finds the last record of each partition, and whether a time went back: over very few records
    (``span``) in this process. Only if one did, others look for the records that this is about.
    """
    dated_records = records.where(f"{staged.TIME} IS NOT NULL")
    if span <= VERY_FEW_ROWS:
        columns = (*_PLACE, staged.CHECKSUM, f"unix_micros({staged.TIME}) AS time")
        rows = _last_of_few(dated_records.selectExpr(*columns).toArrow().to_pylist())
    else:
        rows = [row.asDict() for row in _last_of_each(dated_records).collect()]
    last_records = {row[staged.PARTITION]: _last_record(row, before) for row in rows}
    partitions = [row[staged.PARTITION] for row in rows if _went_back(row, before)]
    if not partitions or table.has_changes or table.order == "offset":
        return OrderedRecords(records, last_records)
    later_times = _later_times(records, partitions, before).localCheckpoint()
    times_back = later_times.count()
    _log.warning(
        "%s of %s have a time before that of an earlier record of their partition: a clock went back. They are ordered"
        " by the earlier record's time",
        f"{times_back:,} records",
        table.topic,
    )
    return OrderedRecords(with_order_times(records, later_times).localCheckpoint(), last_records, times_back)


def with_order_times(records: DataFrame, later_times: DataFrame) -> DataFrame:
    """Return staged records with the times of ``later_times`` (partition, position and time) as times of order."""
    names = (*_PLACE, staged.ORDER_TIME)
    times = later_times.select(*(F.col(name).alias(f"{name}_of") for name in names))
    is_same = " AND ".join(f"{name} = {name}_of" for name in _PLACE)
    joined_records = records.join(times, F.expr(is_same), "left")
    return joined_records.withColumn(staged.ORDER_TIME, F.col(f"{staged.ORDER_TIME}_of")).drop(*times.columns)


def _last_of_few(places: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what ``_last_of_each`` does, from the place, time and checksum of each record."""
    partitions: dict[int, dict[str, Any]] = {}
    for place in sorted(places, key=lambda place: (place[staged.PARTITION], place[staged.POSITION])):
        time = place["time"]
        first = {"least_time": time, "greatest_time": time, "went_back": False}
        row = partitions.setdefault(place[staged.PARTITION], first)
        row |= {"went_back": row["went_back"] or time < row["greatest_time"]}
        row |= {"least_time": min(row["least_time"], time), "greatest_time": max(row["greatest_time"], time)}
        row |= {"position": place[staged.POSITION], "time": time, "checksum": place[staged.CHECKSUM]}
    return [row | {staged.PARTITION: partition} for partition, row in partitions.items()]


def _last_of_each(dated_records: DataFrame) -> DataFrame:
    """Return a row for each partition: its last record, its least and greatest time, and whether a time went back.

    Most records of a topic share their time with the records around them, so groups of one time are few. If no time
    goes back, these groups do not overlap.
    """
    groups = dated_records.groupBy(staged.PARTITION, staged.TIME)
    bounds = groups.agg(
        F.min(staged.POSITION).alias("first"),
        F.max(staged.POSITION).alias("last"),
        F.max_by(staged.CHECKSUM, staged.POSITION).alias("checksum"),
    )
    window = Window.partitionBy(staged.PARTITION).orderBy("first").rowsBetween(*_BEFORE)
    is_back = F.col(staged.TIME) < F.max(staged.TIME).over(window)
    overlaps = F.col("first") < F.max("last").over(window)
    time = f"unix_micros({staged.TIME})"
    return (
        bounds.withColumn("went_back", is_back | overlaps)
        .groupBy(staged.PARTITION)
        .agg(
            F.max("last").alias("position"),
            F.expr(f"max_by({time}, last)").alias("time"),
            F.max_by("checksum", "last").alias("checksum"),
            F.expr(f"min({time})").alias("least_time"),
            F.expr(f"max({time})").alias("greatest_time"),
            F.expr("coalesce(bool_or(went_back), false)").alias("went_back"),
        )
    )


def _last_record(row: Mapping[str, Any], before: LastRecords) -> LastRecord:
    greatest_time = max(row["greatest_time"], _greatest_time(before, row[staged.PARTITION], row["greatest_time"]))
    names = ("position", "time", "checksum")
    caught_up = before.get(row[staged.PARTITION], LastRecord()).caught_up
    return LastRecord(**{name: row[name] for name in names}, greatest_time=greatest_time, caught_up=caught_up)


def _went_back(row: Mapping[str, Any], before: LastRecords) -> bool:
    least_time: int = row["least_time"]
    return row["went_back"] or least_time < _greatest_time(before, row[staged.PARTITION], least_time)


def _greatest_time(before: LastRecords, partition: int, default: int) -> int:
    time = before[partition].greatest_time if partition in before else None
    return default if time is None else time


def _later_times(records: DataFrame, partitions: Sequence[int], before: LastRecords) -> DataFrame:
    """Return the place of each record of these partitions whose time went back, and the greatest time before it."""
    places = records.where(F.col(staged.PARTITION).isin(list(partitions))).select(*_PLACE, staged.TIME).distinct()
    window = Window.partitionBy(staged.PARTITION).orderBy(staged.POSITION).rowsBetween(*_BEFORE)
    greatest_before = F.greatest(F.max(staged.TIME).over(window), F.expr(_times_sql(before)))
    ordered_places = places.withColumn(staged.ORDER_TIME, greatest_before)
    return ordered_places.where(F.col(staged.TIME) < F.col(staged.ORDER_TIME)).drop(staged.TIME)


def _times_sql(before: Mapping[int, LastRecord]) -> str:
    cases = " ".join(
        f"WHEN {partition} THEN timestamp_micros({last.greatest_time}L)"
        for partition, last in before.items()
        if last.greatest_time is not None
    )
    return f"CASE {staged.PARTITION} {cases} END" if cases else "CAST(NULL AS TIMESTAMP)"


class _Batch(NamedTuple):
    """A range that a batch has read, the greatest time before and after it, and whether times went back in it."""

    start: int
    end: int
    time: int | None
    last_time: int | None
    went_back: bool


@dataclass(frozen=True)
class FormerTimes:
    """What the history says of the times of a topic: the batches that read each partition, in order."""

    state: SourceState
    batches: dict[int, list[_Batch]] = field(default_factory=dict)
    firsts: dict[int, int] = field(default_factory=dict)
    is_known: bool = True

    @classmethod
    def of(cls, context: TableContext, state: SourceState) -> "FormerTimes":
        """Read them from the whole history of a table."""
        ledger = whole_ledger(context.settings, context.table)
        entries = ledger.entries
        is_known = not entries or not entries[-1].commit.totals_before.times_back
        batches: dict[int, list[_Batch]] = {}
        for partition, batch in _batches_of(ledger, state.source):
            batches.setdefault(partition, []).append(batch)
        # a RESTORE may let two batches read the same range
        sorted_batches = {p: sorted(parts, key=lambda batch: batch[:2]) for p, parts in batches.items()}
        return cls(state, sorted_batches, first_positions(context.ledger()), is_known)

    def before(self, context: TableContext, plan: Plan) -> LastRecords:
        """Return the greatest time of each partition before a plan.

        If times went back in the batch that read its first record, this reads the records of the batch before that.
        """
        times: dict[int, int | None] = {}
        prefixes: list[Range] = []
        for part in (part for part in plan.ranges if part.span):
            start, times[part.partition] = self._known_before(part)
            prefixes += [Range(part.partition, start, part.start)] if start < part.start else []
        for partition, time in _greatest_times(context, Plan(plan.stream, plan.source, tuple(prefixes))).items():
            times[partition] = max(time, times[partition] or time)
        return {partition: LastRecord(greatest_time=time) for partition, time in times.items()}

    def _known_before(self, part: Range) -> tuple[int, int | None]:
        """Return a position from which to read up to a range, and the greatest time before that position.

        If the records from there on have expired, it is a time that is at least as great: then the records of the range
        still are in their order, and before all later ones.
        """
        batches, earliest = self.batches.get(part.partition, []), self.state.earliest.get(part.partition, 0)
        index = bisect_right(batches, part.start, key=lambda batch: batch.start) - 1
        if index >= 0 and part.start < batches[index].end:
            batch = batches[index]
            start, time, later_time = (batch.start, batch.time, batch.last_time)
            if not batch.went_back:
                return part.start, time
        elif self.is_known:
            return part.start, None
        else:
            start, time = self.firsts.get(part.partition, 0), None
            later_time = next((batch.time for batch in batches if batch.start > part.start), None)
        return (start, time) if start >= min(earliest, part.start) else (part.start, later_time)


def _batches_of(ledger: Ledger, source: SourceId) -> Iterable[tuple[int, _Batch]]:
    """Yield each range of a batch of a source, with its partition."""
    for entry, former in pairwise((*ledger.entries, None)):
        if entry and entry.commit.kind == "batch" and entry.commit.source == source:
            last_records = _last_records(former, entry)
            for part in (part for part in entry.commit.ranges if part.span):
                time = last_records.get(part.partition, LastRecord()).greatest_time
                last_time = entry.commit.last_records.get(part.partition, LastRecord()).greatest_time
                yield part.partition, _Batch(part.start, part.end, time, last_time, entry.commit.times_back > 0)


def _last_records(former: Entry | None, entry: Entry) -> LastRecords:
    commit = former and of_stream(former.commit, entry.commit.stream or "")
    return commit.last_records if commit and commit.source == entry.commit.source else {}


def _greatest_times(context: TableContext, plan: Plan) -> dict[int, int]:
    """Return the greatest time of the records in a plan, by partition."""
    if not plan.ranges:
        return {}
    try:
        with read_failures(plan, f"lakehouse replay {context.table.name}"):
            return _collect_times(read_records(context.spark, context.settings, plan))
    except TimelessRecordError as error:
        return _collect_times(read_around_timeless(context, plan, error)[1])


def _collect_times(records: DataFrame) -> dict[int, int]:
    times = records.groupBy(staged.PARTITION).agg(F.expr(f"unix_micros(max({staged.TIME}))"))
    return {partition: time for partition, time in times.collect() if time is not None}
