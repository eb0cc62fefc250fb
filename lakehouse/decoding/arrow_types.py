"""The Arrow types of declared columns, and of the records that Python gives to Spark."""

import pyarrow as pa

from lakehouse.decoding import staged
from lakehouse.decoding.nested_types import nested

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
"""The columns of records, ``staged.PLACE`` and ``staged.RAW``, in Arrow's types."""
RECORD_TYPE = (
    f"{staged.TIME} TIMESTAMP, {staged.PARTITION} INT, {staged.POSITION} BIGINT, {staged.SEQUENCE} BIGINT,"
    f" {staged.KEY} BINARY, {staged.VALUE} BINARY, {staged.HEADERS} ARRAY<STRUCT<key STRING, value BINARY>>"
)
"""The same columns in Spark's types, as SQL."""
_SCALAR_TYPES = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


def arrow_type(sql_type: str) -> pa.DataType:
    """Return the Arrow type of a declared column's Spark SQL type; times are in UTC."""
    if sql_type.startswith("DECIMAL"):
        precision, scale = (int(part) for part in sql_type[8:-1].split(","))
        return pa.decimal128(precision, scale)
    nested_type = nested(sql_type)
    if nested_type is None:
        return _SCALAR_TYPES[sql_type]
    inner_types = [(name, arrow_type(inner_type)) for name, inner_type in nested_type.inner]
    if nested_type.kind == "STRUCT":
        return pa.struct(inner_types)
    types = [inner_type for _, inner_type in inner_types]
    return pa.map_(*types) if nested_type.kind == "MAP" else pa.list_(*types)
