"""Generated records as a Spark DataFrame. Workers compute them, some thousands at a time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle

from lakehouse import decoding
from lakehouse.declaration.sources import Generated
from lakehouse.decoding.generated import microseconds_of, value_writer
from lakehouse.decoding.record_schema import HEADERS_TYPE, RECORD_SCHEMA, RECORD_TYPE, TIME_TYPE
from lakehouse.ledger.positions import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SLICE = 5_000
"""Records that a worker holds at a time."""
_PART = 20_000  # records of one row of the plan
_PARTS = pa.schema({"partition": pa.int32(), "first": pa.int64(), "end": pa.int64()})


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
