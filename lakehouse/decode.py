"""Records → rows and reasons. DataFrame in, DataFrame out; no input or output of its own.

The decoding itself (``lakehouse.records``) is Python that runs inside Spark's workers over Arrow batches.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse import records
from lakehouse.arrow import arrow_type
from lakehouse.declaration import StreamTable
from lakehouse.records import Field, Rejection

POSITION = "kafka_partition INT, kafka_offset BIGINT, kafka_timestamp TIMESTAMP"
RAW = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def decode_records(records_read: DataFrame, table: StreamTable) -> DataFrame:
    """Decode each record into a row or a reason.

    In: position, ``key``, ``value``, ``headers``. Out, one row for each record: position; ``reason`` and
    ``detail`` (NULL where the record may enter); the raw parts (NULL where it may); the declared columns
    (NULL where it may not) and the partition column.
    """
    # by value, so that a cluster's workers need pyarrow but not this package
    cloudpickle.register_pickle_by_value(records)  # type: ignore[no-untyped-call]
    columns = ", ".join(f"`{field.name}` {field.type}" for field in table.fields)
    schema = f"{POSITION}, {RAW}, reason STRING, detail STRING, {columns}"
    decoded = records_read.mapInArrow(_decoder(table.fields), schema)
    if table.partition_by is None:
        return decoded
    return decoded.withColumn(table.partition_by.name, F.expr(table.partition_by.expression))


def _decoder(fields: tuple[Field, ...]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Build the function that Spark ships to its workers; it refers to nothing but ``records``."""
    types = [arrow_type(field.type) for field in fields]
    decode = records.decode
    rejection: type[Rejection] = records.Rejection

    def decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows: list[dict[str, object]] = []
            reasons: list[str | None] = []
            details: list[str | None] = []
            for value in batch.column("value").to_pylist():
                try:
                    row, reason, detail = decode(value, fields), None, None
                except rejection as verdict:
                    row, reason, detail = {}, verdict.reason, verdict.detail
                rows.append(row)
                reasons.append(reason)
                details.append(detail)
            kept = pa.array([i if reason else None for i, reason in enumerate(reasons)], pa.int64())
            arrays = {
                **{name: batch.column(name) for name in ("kafka_partition", "kafka_offset", "kafka_timestamp")},
                **{name: batch.column(name).take(kept) for name in ("key", "value", "headers")},
                "reason": pa.array(reasons, pa.string()),
                "detail": pa.array(details, pa.string()),
            }
            for field, arrow in zip(fields, types, strict=True):
                arrays[field.name] = pa.array([row.get(field.name) for row in rows], arrow)
            yield pa.RecordBatch.from_pydict(arrays)

    return decode_batches
