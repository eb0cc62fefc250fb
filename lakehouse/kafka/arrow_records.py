"""Records that this process has read, in the columns of ``read_records``."""

from collections.abc import Sequence

import pyarrow as pa

from lakehouse.decoding import staged
from lakehouse.kafka.newest_records import Record
from lakehouse.kafka.timeless import is_timeless

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD_SCHEMA = pa.schema(
    [
        (staged.TIME, pa.timestamp("us", "UTC")),
        (staged.PARTITION, pa.int32()),
        (staged.POSITION, pa.int64()),
        (staged.SEQUENCE, pa.int64()),
        (staged.KEY, pa.binary()),
        (staged.VALUE, pa.binary()),
        (staged.HEADERS, _HEADERS),
    ]
)
"""The columns of ``read_records`` in Arrow's types."""


def to_arrow(records: Sequence[Record]) -> pa.Table:
    """Return records with the columns of ``read_records``; a time that is out of range is NULL."""
    columns = [
        [None if is_timeless(record.milliseconds) else record.milliseconds * 1000 for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [None] * len(records),
        [record.key for record in records],
        [record.value for record in records],
        [[{"key": name, "value": value} for name, value in record.headers] or None for record in records],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, RECORD_SCHEMA, strict=True)], RECORD_SCHEMA
    )
