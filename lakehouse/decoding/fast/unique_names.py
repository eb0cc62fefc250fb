"""Which JSON records have no object with two equal names: a native parser silently keeps one of two.

The number of strings in the bytes is compared with the number of strings in the parsed objects.
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakehouse.decoding.fast.plain_columns import ConvertedColumn
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fields import Field
from lakehouse.decoding.record_parts import VALUE

_QUOTE, _BACKSLASH = b'"\\'
_MAX_LEVELS = 50  # of nesting that the strict parser certainly accepts


class RecordBytes(NamedTuple):
    """Records as bytes: one by one, and as one array with the offsets at which each begins and ends."""

    values: list[bytes | None]
    data: Any
    offsets: Any


def record_bytes_of(values: pa.Array) -> RecordBytes:
    """Return JSON records as bytes; a record that is NULL has none."""
    large = values.cast(pa.large_binary())
    _, starts, data = large.buffers()
    offsets = np.frombuffer(starts, np.int64, len(large) + 1, large.offset * 8)
    all_bytes = np.frombuffer(data, np.uint8)[: offsets[-1]] if data else np.empty(0, np.uint8)
    return RecordBytes(large.to_pylist(), all_bytes, offsets)


def count_declared(fields: Iterable[Field], columns: Iterable[ConvertedColumn], size: int) -> Any:
    """The number of strings in each of ``size`` objects that certainly are in declared fields, names included."""
    string_counts = np.zeros(size, np.int64)
    for mask in _declared_strings(fields, columns):
        string_counts += mask
    return string_counts


def has_unique_names(record_bytes: RecordBytes, objects: Sequence[Any], string_counts: Any) -> Mask:
    """A mask of the records with as many strings written as parsed: the parser keeps one of two equal names.

    ``string_counts`` are those of ``count_declared``; this changes them.
    """
    # no object has fewer strings than declared ones: if the sums are equal, the counts of each object are equal
    all_bytes = record_bytes.data[record_bytes.offsets[0] :]
    if not (all_bytes == _BACKSLASH).any() and np.count_nonzero(all_bytes == _QUOTE) == 2 * string_counts.sum():
        return np.ones(len(objects), bool)
    written_counts = _count_written_strings(record_bytes)
    differs = written_counts != string_counts  # an unmapped field, a null, or a duplicate name
    string_counts[differs] = [_count_strings(obj) for obj in compress(objects, differs.tolist())]
    return np.asarray(written_counts == string_counts)


def _declared_strings(fields: Iterable[Field], columns: Iterable[ConvertedColumn]) -> list[Mask]:
    """One mask for each name and each string value of declared fields: the records that contain it, as one string."""
    name_masks: dict[tuple[str, ...], Mask] = {}
    value_masks: dict[tuple[str, ...], Mask] = {}
    pairs = [pair for pair in zip(fields, columns, strict=True) if pair[0].part == VALUE and not pair[0].whole_depth]
    for field, column in pairs:
        for depth in range(1, len(field.names) + 1):
            names = field.names[:depth]
            name_masks[names] = name_masks[names] | column.in_record if names in name_masks else column.in_record
        if column.text_rows is not None:
            value_masks[field.names] = column.text_rows
    return [*name_masks.values(), *value_masks.values()]


def _count_strings(parsed: dict[str, Any] | list[Any]) -> int:
    """Count the strings, names included; -1 if the nesting is so deep that the strict parser may reject it."""
    count, level = 0, [parsed]
    for _ in range(_MAX_LEVELS):
        next_level: list[Any] = []
        for container in level:
            values: Any = container
            if type(container) is dict:
                count += len(container)
                values = container.values()
            types = list(map(type, values))
            count += types.count(str)
            if dict in types or list in types:
                next_level += [value for value in values if type(value) in (dict, list)]
        if not next_level:
            return count
        level = next_level
    return -1


def _count_written_strings(record_bytes: RecordBytes) -> Any:
    """Count the strings in valid JSON: each has two quotes that are not escaped."""
    quote_counts = _count_byte(record_bytes, _QUOTE)
    escaped_rows = np.flatnonzero(_count_byte(record_bytes, _BACKSLASH))
    quote_counts[escaped_rows] = [_count_unescaped_quotes(record_bytes.values[row] or b"") for row in escaped_rows]
    return quote_counts // 2


def _count_unescaped_quotes(value: bytes) -> int:
    """Count the quotes that begin or end a string, in time linear to the length for any input."""
    return value.replace(rb"\\", b"").replace(rb"\"", b"").count(b'"')


def _count_byte(record_bytes: RecordBytes, byte: int) -> Any:
    places = np.flatnonzero(record_bytes.data == byte)
    return np.diff(np.searchsorted(places, record_bytes.offsets))
