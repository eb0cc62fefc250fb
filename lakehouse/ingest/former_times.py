"""The greatest time of each partition before records that are merged again, so that they get their order of before."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.decoding import staged
from lakehouse.ingest.around_timeless import read_around_timeless
from lakehouse.ingest.start import first_positions
from lakehouse.kafka import TimelessRecordError, read_failures, read_records
from lakehouse.ledger.commit_values import LastRecord, LastRecords
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, Range, SourceId, SourceState
from lakehouse.ledger.several_sources import of_stream
from lakehouse.storage.table_context import TableContext, whole_ledger


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
