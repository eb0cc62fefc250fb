"""The Arrow types of declared columns."""

import pyarrow as pa

from lakehouse.decoding.nested_types import nested

_PLAIN = {
    "STRING": pa.string(),
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
    found = nested(sql_type)
    if found is None:
        return _PLAIN[sql_type]
    inner = [(name, arrow_type(each)) for name, each in found.inner]
    if found.kind == "STRUCT":
        return pa.struct(inner)
    types = [each for _, each in inner]
    return pa.map_(*types) if found.kind == "MAP" else pa.list_(*types)
