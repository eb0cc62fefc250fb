"""The columns of records that Python's workers yield: ``staged.PLACE`` and ``staged.RAW``."""

import pyarrow as pa

from lakehouse.decoding import staged

NAMES = [*staged.PLACE, *staged.RAW]
TYPE = (
    f"{staged.TIME} TIMESTAMP, {staged.PARTITION} INT, {staged.POSITION} BIGINT, {staged.SEQUENCE} BIGINT,"
    f" {staged.KEY} BINARY, {staged.VALUE} BINARY, {staged.HEADERS} ARRAY<STRUCT<key STRING, value BINARY>>"
)
TIME_TYPE = pa.timestamp("us", "UTC")
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
