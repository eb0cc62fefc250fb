"""The parsed records of a batch, and the elements of all their arrays."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import chain, compress
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from pyarrow.compute import binary_length

from lakehouse.decoding.elements import count_rows, wrap_single_objects
from lakehouse.decoding.fast.plain_columns import ConvertedColumn
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.plain_parsing import parse_objects, parse_or_none, parse_with_format, parse_with_nulls
from lakehouse.decoding.fast.plain_paths import values_at, values_of_parts
from lakehouse.decoding.fast.spliced_texts import splice_texts
from lakehouse.decoding.fast.unique_names import RecordBytes, record_bytes_of
from lakehouse.decoding.fast.unpacked_values import unpack_values
from lakehouse.decoding.fields import Field, Rejection
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
    sizes = _sizes_of(values)
    spliced_values = splice_texts(values, rules)
    if spliced_values is not values:
        values, sizes = spliced_values, sizes + _sizes_of(spliced_values)
    record_bytes = record_bytes_of(values) if rules.parser.is_json else None
    if record_bytes:
        parse_one = parse_with_nulls if rules.parser.json_options.not_finite == "null" else parse_or_none
        array_types = (list, *((dict,) if rules.single_object else ())) if rules.are_arrays else ()
        objects, is_plain = parse_objects(record_bytes.values, parse_one, array_types)
    else:
        objects, is_plain = parse_with_format(rules, values)
    for parsed in objects if rules.single_object else ():
        wrap_single_objects(parsed, rules.paths_to_arrays)
    part_values = values_of_parts(arrays, objects, rules)
    parsed_batch = RecordBatch(rules, values, objects, is_plain, record_bytes, part_values)
    memories = _rows_memory(parsed_batch, sizes[: len(objects)])
    count = max(1, int(np.searchsorted(np.cumsum(memories), MAX_SLICE_MEMORY)))
    is_plain &= memories + sizes[: len(objects)] * _memory_per_byte(rules) <= MAX_RECORD_MEMORY
    if count < len(objects):
        objects, is_plain = objects[:count], is_plain[:count]
        record_bytes = record_bytes_of(values[:count]) if record_bytes else None
    part_values = {part: items[: len(objects)] for part, items in part_values.items()}
    return RecordBatch(rules, values, objects, is_plain, record_bytes, part_values)


def _sizes_of(values: pa.Array) -> Any:
    """The bytes of each value; none of NULL."""
    return binary_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _memory_per_byte(rules: Rules) -> int:
    return column_memory(rules)[1] + rules.parser.memory_by_byte


def _rows_memory(batch: RecordBatch, sizes: Any) -> Any:
    """Bytes of memory of each record's rows at most; the strict path measures a record that is not parsed, itself."""
    rules, is_plain = batch.rules, batch.is_plain
    per_row, outer_count = column_memory(rules)[0], len(rules.outer_fields)
    levels, _ = levels_of(batch.objects, rules, is_plain)
    lengths = [len(array) if type(array) is list else 1 for array in levels[-1].arrays]
    counts = sum_counts(lengths, levels[-1].owners, len(batch.objects))
    counts = np.where(is_plain, counts, 1)
    repeated_sizes = sizes.astype(np.int64)
    for part_values in batch.part_values.values():
        repeated_sizes += [len(part) if type(part) is bytes else 0 for part in part_values]
    memories = counts * (per_row + outer_count * repeated_sizes * _REPEATED_PER_BYTE)
    for row in np.flatnonzero((memories > _MEASURED) & is_plain) if outer_count else ():
        parts = {part: values[row] for part, values in batch.part_values.items()}
        with suppress(Rejection):  # the strict path rejects the record
            memories[row] = count_rows(batch.objects[row], rules, rules.complete_parts(parts), per_row)[1]
    return np.minimum(memories, MAX_RECORD_MEMORY + 1)


class Level(NamedTuple):
    """The objects around rows at one level: those of the records, or the elements of an array on the way to the rows.

    ``owners`` are the places of their records, and ``parents`` those of the objects around them. ``arrays`` are the
    values at the path to the next array.
    """

    objects: list[dict[str, Any]]
    owners: Any
    parents: Any
    arrays: list[Any]


def levels_of(objects: list[dict[str, Any]], rules: Rules, has_rows: Mask) -> tuple[list[Level], Mask]:
    """Return the levels of the records that may have rows, and which records have only arrays and objects in them."""
    is_readable, is_taken = np.ones(len(objects), bool), has_rows
    levels: list[Level] = []
    owners = parents = np.arange(len(objects))
    for path in rules.paths_to_arrays:
        if levels:
            elements, parents = _elements_in(levels[-1].arrays, is_taken)
            owners = levels[-1].owners[parents]
            is_object = np.fromiter((type(element) is dict for element in elements), bool, len(elements))
            is_null = np.fromiter((element is None for element in elements), bool, len(elements))
            is_readable[owners[~is_object & ~is_null]] = False
            objects, owners, parents = (
                list(compress(elements, is_object.tolist())),
                owners[is_object],
                parents[is_object],
            )
        arrays = values_at(objects, path)
        is_array = np.fromiter((type(array) is list for array in arrays), bool, len(arrays))
        is_null = np.fromiter((array is None for array in arrays), bool, len(arrays))
        is_readable[owners[~is_array & ~is_null]] = False
        is_taken = is_array & has_rows[owners]
        levels.append(Level(objects, owners, parents, arrays))
    return levels, is_readable


def _elements_in(arrays: list[Any], is_taken: Mask) -> tuple[list[Any], Any]:
    """The elements of some arrays, and the place of the array of each."""
    taken_arrays = list(compress(arrays, is_taken.tolist()))
    counts = np.fromiter(map(len, taken_arrays), np.int64, len(taken_arrays))
    return list(chain.from_iterable(taken_arrays)), np.repeat(np.flatnonzero(is_taken), counts)


class Rows(NamedTuple):
    """The elements of all records that certainly have some.

    ``places`` are those of the objects around them, by level, and ``indices`` their own in their records. ``objects``
    are the elements, and empty ones in place of others.
    """

    elements: list[Any]
    objects: list[dict[str, Any]]
    are_objects: Mask
    levels: list[Level]
    places: list[Any]
    indices: Any

    @classmethod
    def of(cls, levels: list[Level], has_rows: Mask) -> Self:
        """Collect the elements of the records that may have rows."""
        arrays = levels[-1].arrays
        are_arrays = np.fromiter((type(array) is list for array in arrays), bool, len(arrays))
        elements, parents = _elements_in(arrays, are_arrays & has_rows[levels[-1].owners])
        places = [parents]
        for level in levels[:0:-1]:
            places.insert(0, level.parents[places[0]])
        are_objects = np.ones(len(elements), bool)
        objects = elements
        if not set(map(type, elements)) <= {dict}:
            are_objects = np.fromiter((type(element) is dict for element in elements), bool, len(elements))
            objects = [element if type(element) is dict else {} for element in elements]
        owners = places[0]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        counts = np.diff(starts, append=len(elements))
        indices = np.arange(len(elements)) - np.repeat(starts, counts)
        return cls(elements, objects, are_objects, levels, places, indices)

    @property
    def owners(self) -> Any:
        """The places of their records."""
        return self.places[0]

    def place(self, field: Field) -> tuple[list[Any], Field]:
        """The objects that a field of an element is read from, and the field with its path in them."""
        if len(field.names) == 1:
            return [{ELEMENT: element} for element in self.elements], field
        depth = max(field.whole_depth - 1, 0)
        return self.objects, field._replace(path=field.names[1:], former=field.former[1:], whole_depth=depth)

    def spread(self, column: ConvertedColumn, level: int) -> ConvertedColumn:
        """Return a column with a value for each object of a level as one with a value for each row."""
        places = self.places[level]
        zero_rows: list[int] = []
        if column.zero_rows:
            zero_rows = np.flatnonzero(np.isin(places, column.zero_rows)).tolist()
        return ConvertedColumn(
            column.values.take(pa.array(places)),
            column.has_value[places],
            column.is_plain[places],
            zero_rows,
            None if column.text_rows is None else column.text_rows[places],
            column.in_record[places],
            None if column.is_rounded is None else column.is_rounded[places],
        )


def sum_counts(counts: Any, owners: Any, size: int) -> Any:
    """The sum of some counts for each of ``size`` records."""
    return np.bincount(owners, weights=counts, minlength=size).astype(np.int64)
