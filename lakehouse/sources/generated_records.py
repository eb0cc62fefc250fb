"""Generated records as a source: each exists once its time has passed, and is computed by the worker that reads it."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle

from lakehouse import decoding
from lakehouse.declaration import StreamTable
from lakehouse.declaration.sources import Generated
from lakehouse.decoding.arrow_types import HEADERS_TYPE, RECORD_SCHEMA, RECORD_TYPE, TIME_TYPE
from lakehouse.decoding.generated import microseconds_of, value_writer
from lakehouse.errors import DataLossError, SourceError
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.positions import Plan, Positions, Progress, SourceId, SourceState
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse.sources.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KIND = "generated"
_NEW = "new"  # in place of the start, before the table exists
_MAX_COUNT = 2**60  # far below the greatest position, for a clock at the end of time
_MILLISECOND = 1_000  # microseconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SLICE = 5_000
"""Records that a worker holds at a time."""
_PART = 20_000  # records of one row of the plan
_PARTS = pa.schema({"partition": pa.int32(), "first": pa.int64(), "end": pa.int64()})


def source_id(generated: Generated, start: int | None) -> SourceId:
    """Return the identity of records that begin at ``start``, in microseconds since 1970; ``None`` if that is open."""
    return SourceId(KIND, f"{generated.digest}@{_NEW if start is None else start}")


def start_of(source: SourceId, generated: Generated) -> int | None:
    """Return the start of the records of an identity; ``None`` if it is open, or if they are of another generator."""
    digest, _, start = source.identity.partition("@")
    return int(start) if (source.kind, digest) == (KIND, generated.digest) and start != _NEW else None


def count_at(generated: Generated, start: int, now: int) -> int:
    """Return how many records exist at a time; both times are in microseconds since 1970."""
    count = min(max(now - start, 0) * generated.rate // 1_000_000, _MAX_COUNT)
    return count if generated.count is None else min(count, generated.count)


def ends_of(count: int, partitions: int) -> dict[int, int]:
    """Return the end of each partition, if records are given to them in turn."""
    return {partition: (count - partition + partitions - 1) // partitions for partition in range(partitions)}


def state_of(generated: Generated, start: int | None, now: int, progress: Progress | None) -> SourceState:
    """Return the state of the records that begin at ``start``; never with an end before the progress in them."""
    source = source_id(generated, start)
    merged: Positions = progress.positions if progress and progress.source == source else {}
    ends = ends_of(0 if start is None else count_at(generated, start, now), generated.partitions)
    ends = {partition: max(end, merged.get(partition, 0)) for partition, end in ends.items()}
    return SourceState(generated.stream, source, dict.fromkeys(ends, 0), ends)


@dataclass(frozen=True)
class GeneratedRecord:
    """One generated record: its place, and its time in microseconds since 1970."""

    partition: int
    position: int
    microseconds: int
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def shown_place(self) -> dict[str, str | int]:
        """Where it is in the generator, by name."""
        return {"partition": self.partition, "position": self.position}

    @property
    def milliseconds(self) -> int:
        """When it was made, since 1970, UTC."""
        return self.microseconds // 1_000

    @property
    def time(self) -> datetime:
        """When it was made, UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.microseconds)


def newest_records(generated: Generated, state: SourceState, count: int) -> list[GeneratedRecord]:
    """Return the last records that exist, at most ``count``, the newest last; computes them, and reads nothing."""
    start, write = start_of(state.source, generated) or 0, value_writer(generated.fields, generated.seed)
    places = (
        (position * generated.partitions + partition, partition, position)
        for partition, end in state.end.items()
        for position in range(max(end - count, 0), end)
    )
    return [
        GeneratedRecord(partition, position, start + microseconds_of(number, generated.rate), write(number))
        for number, partition, position in sorted(nlargest(count, places))
    ]


def read_clock() -> int:
    """Return the time in microseconds since 1970, as the clock of this machine says."""
    return time.time_ns() // 1_000


@dataclass(frozen=True)
class GeneratedSource(Source):
    """Records that are computed; the table keeps the time of the first one, and a clock says how many there are."""

    settings: Settings
    table: StreamTable
    generated: Generated

    def read_state(self, ledger: Ledger | None, limit: float) -> SourceState:  # noqa: ARG002 - a clock answers at once
        """Look at the clock. Of a table that does not exist yet, only a declared start says which records exist."""
        progress = ledger.progress if ledger else None
        state = state_of(self.generated, self._start(progress), read_clock(), progress)
        return replace(state, starts=state.earliest) if ledger is not None and progress is None else state

    def _start(self, progress: Progress | None) -> int | None:
        """Return the time of record 0 in microseconds since 1970: as declared, as recorded, or as the table's own."""
        if self.generated.since is not None:
            return (self.generated.since - _EPOCH) // timedelta(microseconds=1)
        recorded = start_of(progress.source, self.generated) if progress else None
        return self._created_at() if recorded is None else recorded

    def _created_at(self) -> int | None:
        uri = self.settings.table_uri(self.table.name)
        table = open_table(uri)
        if table is None:
            return None
        with log_failures(uri):
            created_at = table.metadata().created_time
        if created_at is None:
            raise SourceError(
                f"Table {self.table.name} does not record when it was created",
                where=uri,
                action="Declare when its records begin: since=datetime(..., tzinfo=UTC)",
            )
        return created_at * _MILLISECOND

    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "DataFrame":  # noqa: ARG002
        """Compute the records of the plan."""
        start = start_of(plan.source, self.generated)
        if start is None:
            raise DataLossError(
                f"The records of {self.table.name} are those of another generator than the declared one",
                where=f"generator {plan.stream}",
                action="Declare the generator of before, or a table with another name.",
            )

        return read_generated(spark, self.generated, start, plan)

    def failures(self, plan: Plan, command: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Explain nothing: what is computed cannot be gone."""
        return nullcontext()


def read_generated(spark: "SparkSession", generated: Generated, start: int, plan: Plan) -> "DataFrame":
    """Return the records of a plan that begin at ``start``: one row for each, with the columns of ``RECORD_SCHEMA``."""
    cloudpickle.register_pickle_by_value(decoding)  # type: ignore[no-untyped-call]
    parts = [
        {"partition": part.partition, "first": first, "end": min(first + _PART, part.end)}
        for part in plan.ranges
        for first in range(part.start, part.end, _PART)
    ]
    frame = spark.createDataFrame(pa.Table.from_pylist(parts, _PARTS))
    return frame.mapInArrow(_generator(generated, start), RECORD_TYPE)


def _generator(generated: Generated, start: int) -> Any:
    """Build the function that Spark ships to its workers, which need only the package of decoding."""
    # locals: neither this module nor that of the declaration is shipped
    fields, seed, rate, partitions = dict(generated.fields), generated.seed, generated.rate, generated.partitions
    names, time_type, headers_type, slice_size = RECORD_SCHEMA.names, TIME_TYPE, HEADERS_TYPE, _SLICE
    build_writer, time_of = value_writer, microseconds_of

    def to_batch(partition: int, positions: range) -> pa.RecordBatch:
        write, count = build_writer(fields, seed), len(positions)
        numbers = [position * partitions + partition for position in positions]
        columns = [
            pa.array([start + time_of(number, rate) for number in numbers], time_type),
            pa.repeat(pa.scalar(partition, pa.int32()), count),
            pa.array(positions, pa.int64()),
            pa.nulls(count, pa.int64()),
            pa.nulls(count, pa.binary()),
            pa.array([write(number) for number in numbers], pa.binary()),
            pa.nulls(count, headers_type),
        ]
        return pa.RecordBatch.from_arrays(columns, names)

    def generate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in (part for batch in batches for part in batch.to_pylist()):
            for first in range(part["first"], part["end"], slice_size):
                yield to_batch(part["partition"], range(first, min(first + slice_size, part["end"])))

    return generate
