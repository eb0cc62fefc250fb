"""Records → rows and reasons. DataFrame in, DataFrame out; no input or output of its own.

The decoding itself (``lakehouse.declaration.records``) is Python that runs inside Spark's workers over Arrow batches.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable, records
from lakehouse.declaration.arrow import arrow_type
from lakehouse.declaration.records import Field, Lateness, Rejection

PLACE = ("_time", "_partition", "_offset")
RAW = ("_key", "_value", "_headers")
_SCHEMA = (
    "_time TIMESTAMP, _partition INT, _offset BIGINT,"
    " _key BINARY, _value BINARY, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>,"
    " _reason STRING, _detail STRING, _late BOOLEAN"
)


def decode_records(records_read: DataFrame, table: StreamTable) -> DataFrame:
    """Decode each record into a row or a reason.

    In: the columns of ``PLACE`` and ``RAW``. Out, one row for each record: its place; ``_reason`` and
    ``_detail`` (NULL where the record may enter); the raw parts (NULL where it may); ``_late``; the declared
    columns (NULL where it may not) and the partition column. No declared name begins with an underscore.
    """
    # by value, so that a cluster's workers need pyarrow but not this package
    cloudpickle.register_pickle_by_value(records)  # type: ignore[no-untyped-call]
    columns = ", ".join(f"`{field.name}` {field.type}" for field in table.fields)
    judge = _judge(table.fields, table.late.rule if table.late else None)
    decoded = records_read.mapInArrow(_decoder(table.fields, judge), f"{_SCHEMA}, {columns}")
    if table.partition_by is None:
        return decoded
    return decoded.withColumn(table.partition_by.name, F.expr(table.partition_by.expression))


_Verdict = tuple[dict[str, object], str | None, str | None, bool]
_Judge = Callable[[bytes | None, int | None], _Verdict]


def _judge(fields: tuple[Field, ...], late: Lateness | None) -> _Judge:
    """Build the function that decides one record: its values, reason and detail, and whether it is late."""
    decode, judge_late = records.decode, records.judge_late
    rejection: type[Rejection] = records.Rejection

    def judge(value: bytes | None, arrived: int | None) -> _Verdict:
        try:
            row = decode(value, fields)
            return row, None, None, late is not None and arrived is not None and judge_late(row, arrived, late)
        except rejection as verdict:
            return {}, verdict.reason, verdict.detail, verdict.reason == "late"

    return judge


def _decoder(
    fields: tuple[Field, ...], judge: _Judge
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Build the function that Spark ships to its workers; it refers to nothing but ``records``."""
    types = [arrow_type(field.type) for field in fields]
    place, raw = PLACE, RAW

    def decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrived = batch.column("_time").cast(pa.int64()).to_pylist()
            verdicts = list(map(judge, batch.column("_value").to_pylist(), arrived))
            rows = [row for row, *_ in verdicts]
            kept = pa.array([i if reason else None for i, (_, reason, *_) in enumerate(verdicts)], pa.int64())
            arrays = {
                **{name: batch.column(name) for name in place},
                **{name: batch.column(name).take(kept) for name in raw},
                "_reason": pa.array([reason for _, reason, *_ in verdicts], pa.string()),
                "_detail": pa.array([detail for *_, detail, _ in verdicts], pa.string()),
                "_late": pa.array([late for *_, late in verdicts], pa.bool_()),
            }
            for field, arrow in zip(fields, types, strict=True):
                arrays[field.name] = pa.array([row.get(field.name) for row in rows], arrow)
            yield pa.RecordBatch.from_pydict(arrays)

    return decode_batches
