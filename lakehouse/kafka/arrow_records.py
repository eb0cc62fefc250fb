"""Records that this process has read, in the columns of ``read_records``."""

from collections.abc import Sequence

import pyarrow as pa

from lakehouse.decoding.record_schema import RECORD_SCHEMA
from lakehouse.kafka.newest_records import Record
from lakehouse.kafka.timeless import is_timeless


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
