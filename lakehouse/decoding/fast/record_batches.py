"""The parsed records of a batch, and the elements of all their arrays."""

from collections.abc import Mapping
from itertools import chain, compress
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from lakehouse.decoding.elements import repeated_memory
from lakehouse.decoding.fast.plain_columns import ConvertedColumn
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.plain_parsing import parse_objects, parse_or_none, parse_with_format, parse_with_nulls
from lakehouse.decoding.fast.plain_paths import values_at, values_of_parts
from lakehouse.decoding.fast.unique_names import RecordBytes, record_bytes_of
from lakehouse.decoding.fast.unpacked_values import unpack_values
from lakehouse.decoding.fields import Field
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, MAX_SLICE_MEMORY
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.decoding.rules import Rules, column_memory

_REPEATED_PER_BYTE = 4  # bytes of memory of a text that each row repeats, for each of its bytes
_MEASURED = 200_000  # bytes of memory of a record's rows above which the values that they repeat are measured


class RecordBatch(NamedTuple):
    """The records of a batch: their objects, empty ones for records that are not plain, and their other parts.

    ``values`` are their bytes, once unpacked.
    """

    rules: Rules
    values: pa.Array
    objects: list[dict[str, Any]]
    is_plain: Mask
    record_bytes: RecordBytes | None
    part_values: Mapping[str, list[Any]]


def parse_batch(values: pa.Array, arrays: Mapping[str, pa.Array | None], rules: Rules) -> RecordBatch:
    """Parse records; fewer than given if their rows take much memory. ``arrays`` are their other parts."""
    values, rules = unpack_values(values, rules) if rules.parser.is_packed else (values, rules)
    record_bytes = record_bytes_of(values) if rules.parser.is_json else None
    if record_bytes:
        parse_one = parse_with_nulls if rules.parser.not_finite == "null" else parse_or_none
        are_arrays = rules.rows_from == (ELEMENT,)
        objects, is_plain = parse_objects(record_bytes.values, parse_one, are_arrays=are_arrays)
    else:
        objects, is_plain = parse_with_format(rules, values)
    part_values = values_of_parts(arrays, objects, rules)
    sizes = record_bytes.sizes if record_bytes else np.array([len(v or b"") for v in values.to_pylist()])
    parsed_batch = RecordBatch(rules, values, objects, is_plain, record_bytes, part_values)
    memories = _rows_memory(parsed_batch, sizes[: len(objects)])
    count = max(1, int(np.searchsorted(np.cumsum(memories), MAX_SLICE_MEMORY)))
    is_plain &= memories + sizes[: len(objects)] * _memory_per_byte(rules) <= MAX_RECORD_MEMORY
    if count < len(objects):
        objects, is_plain = objects[:count], is_plain[:count]
        record_bytes = record_bytes_of(values[:count]) if record_bytes else None
    part_values = {part: items[: len(objects)] for part, items in part_values.items()}
    return RecordBatch(rules, values, objects, is_plain, record_bytes, part_values)


def _memory_per_byte(rules: Rules) -> int:
    return column_memory(rules)[1] + rules.parser.memory_by_byte


def _rows_memory(batch: RecordBatch, sizes: Any) -> Any:
    """Bytes of memory of each record's rows at most; the strict path measures a record that is not parsed, itself."""
    rules, is_plain = batch.rules, batch.is_plain
    per_row, outer_count = column_memory(rules)[0], len(rules.outer_fields)
    arrays = values_at(batch.objects, rules.rows_from or ())
    counts = np.fromiter((len(array) if type(array) is list else 1 for array in arrays), np.int64, len(arrays))
    counts = np.where(is_plain, counts, 1)
    repeated_sizes = sizes.astype(np.int64)
    for part_values in batch.part_values.values():
        repeated_sizes += [len(part) if type(part) is bytes else 0 for part in part_values]
    memories = counts * (per_row + outer_count * repeated_sizes * _REPEATED_PER_BYTE)
    for row in np.flatnonzero((memories > _MEASURED) & is_plain) if outer_count else ():
        parts = {part: values[row] for part, values in batch.part_values.items()}
        memories[row] = counts[row] * (
            per_row + repeated_memory(batch.objects[row], rules, rules.complete_parts(parts))
        )
    return np.minimum(memories, MAX_RECORD_MEMORY + 1)


class Rows(NamedTuple):
    """The elements of all records that certainly have some.

    ``owners`` are the places of their records, ``indices`` their own in it. ``starts`` are those at which a record
    begins, and ``records`` the records that have elements. ``objects`` are the elements, empty ones if they are no
    objects.
    """

    elements: list[Any]
    objects: list[dict[str, Any]]
    are_objects: Mask
    owners: Any
    indices: Any
    starts: Any
    records: Any

    @classmethod
    def of(cls, arrays: list[Any], has_rows: Mask) -> Self:
        """Collect the elements of the arrays of some records."""
        row_arrays = list(compress(arrays, has_rows.tolist()))
        counts = np.fromiter(map(len, row_arrays), np.int64, len(row_arrays))
        elements = list(chain.from_iterable(row_arrays))
        starts, records = np.cumsum(counts) - counts, np.flatnonzero(has_rows)
        are_objects = np.ones(len(elements), bool)
        objects = elements
        if not set(map(type, elements)) <= {dict}:
            are_objects = np.fromiter((type(element) is dict for element in elements), bool, len(elements))
            objects = [element if type(element) is dict else {} for element in elements]
        indices = np.arange(len(elements)) - np.repeat(starts, counts)
        return cls(elements, objects, are_objects, np.repeat(records, counts), indices, starts, records)

    def require_all(self, is_row_plain: Mask, is_plain: Mask) -> None:
        """Take a record for uncertain if one of its rows is."""
        if self.elements:
            is_plain[self.records] &= np.logical_and.reduceat(is_row_plain, self.starts)

    def sum_of(self, row_counts: Any, size: int) -> Any:
        """The sum of the counts of each record's rows, of ``size`` records."""
        sums = np.zeros(size, np.int64)
        if self.elements:
            sums[self.records] = np.add.reduceat(row_counts, self.starts)
        return sums

    def place(self, field: Field) -> tuple[list[Any], Field]:
        """The objects that a field of an element is read from, and the field with its path in them."""
        if len(field.names) == 1:
            return [{ELEMENT: element} for element in self.elements], field
        return self.objects, field._replace(path=field.names[1:], former=field.former[1:])

    def spread(self, column: ConvertedColumn) -> ConvertedColumn:
        """Return a column with a value for each record as one with a value for each row."""
        zero_rows: list[int] = []
        if column.zero_rows:
            zero_rows = np.flatnonzero(np.isin(self.owners, column.zero_rows)).tolist()
        return ConvertedColumn(
            column.values.take(pa.array(self.owners)),
            column.has_value[self.owners],
            column.is_plain[self.owners],
            zero_rows,
            None if column.text_rows is None else column.text_rows[self.owners],
            column.in_record[self.owners],
        )
