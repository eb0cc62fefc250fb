"""The columns of records that Python gives to Spark: ``staged.PLACE`` and ``staged.RAW``."""

import pyarrow as pa

from lakehouse.decoding import staged

TIME_TYPE = pa.timestamp("us", "UTC")
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD_SCHEMA = pa.schema(
    [
        (staged.TIME, TIME_TYPE),
        (staged.PARTITION, pa.int32()),
        (staged.POSITION, pa.int64()),
        (staged.SEQUENCE, pa.int64()),
        (staged.KEY, pa.binary()),
        (staged.VALUE, pa.binary()),
        (staged.HEADERS, HEADERS_TYPE),
    ]
)
"""The columns in Arrow's types."""
RECORD_TYPE = (
    f"{staged.TIME} TIMESTAMP, {staged.PARTITION} INT, {staged.POSITION} BIGINT, {staged.SEQUENCE} BIGINT,"
    f" {staged.KEY} BINARY, {staged.VALUE} BINARY, {staged.HEADERS} ARRAY<STRUCT<key STRING, value BINARY>>"
)
"""The columns in Spark's types, as SQL."""
