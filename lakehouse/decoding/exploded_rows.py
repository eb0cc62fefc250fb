"""The elements of an array in each record as rows: the arrays that lead to them, and the memory that they take."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, compress
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import binary_length

from lakehouse.decoding.batch import RecordBatch
from lakehouse.decoding.conversion.numbers import Mask
from lakehouse.decoding.conversion.raw_values import values_at
from lakehouse.decoding.fields import (
    Field,
    Rejection,
    UnopenedText,
    is_null_text,
    json_kind,
    raise_no_object,
    short_text,
)
from lakehouse.decoding.memory import (
    MAX_RECORD_MEMORY,
    MAX_SLICE_MEMORY,
    field_memory_per_byte,
    too_large_rejection,
    value_memory,
)
from lakehouse.decoding.record_parts import ELEMENT, KEY, PARSED_KEY, VALUE
from lakehouse.decoding.rows import Level, Rows
from lakehouse.decoding.rules import column_memory
from lakehouse.decoding.values import ParsedKey, follow_path, parse_part

_NO_ROWS = (
    "a record without rows may truncate the table, and its rows would stay. Leave out with where= what changes no row"
)
_REPEATED = 2  # times the memory of a value that every row has: it is written again for each row
_MEASURED = 200_000  # bytes of memory of a record's rows above which the values that they repeat are measured


def rows_of(batch: RecordBatch) -> Rows:
    """Return the rows of a batch, one for each record if the records themselves are rows."""
    if batch.rules.rows_from is None:
        return Rows(batch, np.arange(len(batch)), batch.objects, [], [])
    return _exploded(batch)


def _exploded(batch: RecordBatch) -> Rows:
    """The elements of the records that have some, of as many records as take little memory."""
    rules = batch.rules
    if rules.single_object:
        for parsed in compress(batch.objects, batch.is_open.tolist()):
            _wrap_single_objects(parsed, rules.paths_to_arrays)
    levels = _levels_of(batch)
    elements, parents = _elements_in(levels[-1].arrays, batch.is_open[levels[-1].owners])
    places = [parents]
    for level in levels[:0:-1]:
        places.insert(0, level.parents[places[0]])
    owners = levels[0].owners[places[0]]
    objects = elements
    if not set(map(type, elements)) <= {dict}:
        nothing: dict[str, Any] = {}  # one for all: there may be millions
        objects = [element if isinstance(element, dict) else nothing for element in elements]
    rows = Rows(batch, owners, objects, elements, places)
    rows.levels = levels
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    rows.indices = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    _limit_memory(rows)
    if rules.deletes:
        _reject_without_array(batch, levels[0].arrays)
    is_kept = np.append(batch.is_open, np.zeros(len(levels[0].objects) - len(batch), bool))[rows.owners]
    return rows if is_kept.all() else rows.take(np.flatnonzero(is_kept))


def _levels_of(batch: RecordBatch) -> list[Level]:
    """The objects around rows, by level; a record with anything else in the place of one is rejected."""
    levels: list[Level] = []
    objects, owners, parents, place = batch.objects, np.arange(len(batch)), np.arange(len(batch)), ""
    for path in batch.rules.paths_to_arrays:
        if levels:
            elements, parents = _elements_in(levels[-1].arrays, batch.is_open[levels[-1].owners])
            objects, is_object = _objects_in(batch, elements, levels[-1].owners[parents], f"{place}[]")
            owners, parents = levels[-1].owners[parents][is_object], parents[is_object]
            place += "[]."
        place += ".".join(path)
        levels.append(Level(objects, owners, parents, _arrays_in(batch, objects, owners, path, place)))
    return levels


def _elements_in(arrays: list[Any], is_taken: Mask) -> tuple[list[Any], Any]:
    """The elements of some arrays, and the place of the array of each."""
    counts = np.fromiter((len(array) if isinstance(array, list) else 0 for array in arrays), np.int64, len(arrays))
    counts[~is_taken] = 0
    return list(chain.from_iterable(compress(arrays, counts.tolist()))), np.repeat(np.arange(len(arrays)), counts)


def _objects_in(batch: RecordBatch, elements: list[Any], owners: Any, place: str) -> tuple[list[dict[str, Any]], Mask]:
    """The elements that are objects, and which these are; nothing is in one that is null."""
    is_object = np.fromiter((isinstance(element, dict) for element in elements), bool, len(elements))

    is_odd = ~is_object & np.fromiter((element is not None for element in elements), bool, len(elements))

    def decide(row: int) -> None:
        if not is_null_text(elements[row]):
            raise_no_object(elements[row], place)

    _settle(batch, owners, is_odd, decide)
    return list(compress(elements, is_object.tolist())), is_object


def _arrays_in(
    batch: RecordBatch, objects: list[dict[str, Any]], owners: Any, path: tuple[str, ...], place: str
) -> list[Any]:
    """The array at a path in each object; ``None`` if there is none."""
    arrays = values_at(objects, path)
    is_odd = np.fromiter((not isinstance(array, list | None) for array in arrays), bool, len(arrays))

    def decide(row: int) -> None:
        arrays[row] = _array_at(objects[row], path, place)

    _settle(batch, owners, is_odd, decide)
    return arrays


def _settle(batch: RecordBatch, owners: Any, is_odd: Mask, decide: Callable[[int], None]) -> None:
    """Decide about what is odd in open records, like ``RecordBatch.settle``."""
    if batch.native:
        is_uncertain = np.zeros(len(batch), bool)
        is_uncertain[owners[is_odd]] = True
        batch.doubt(is_uncertain)
        return
    for row in np.flatnonzero(is_odd).tolist():
        record = int(owners[row])
        try:
            if batch.is_open[record]:
                decide(row)
        except Rejection as rejection:
            batch.reject(record, rejection)


def _array_at(parent: dict[str, Any], path: tuple[str, ...], place: str) -> list[Any] | None:
    value, _ = follow_path(parent, path)
    if value is None or is_null_text(value):
        return None
    if isinstance(value, UnopenedText) and value.rejection:
        raise value.rejection
    if not isinstance(value, list):
        shown_place = repr(place) if place != ELEMENT else "the value"
        raise Rejection("wrong_type", f"{shown_place} is {json_kind(value)} {short_text(value)}, expected an array")
    return value


def _wrap_single_objects(parsed: dict[str, Any], paths: Sequence[tuple[str, ...]]) -> None:
    """Put each object in the place of an array whose elements are rows into an array; ``paths`` lead to the arrays."""
    parents: list[Any] = [parsed]
    for depth, (*outer_names, name) in enumerate(paths, 1):
        for outer_name in outer_names:
            parents = [parent.get(outer_name) for parent in parents if isinstance(parent, dict)]
        parents = [parent for parent in parents if isinstance(parent, dict)]
        if depth < len(paths):
            arrays = [parent.get(name) for parent in parents]
            parents = [element for array in arrays if isinstance(array, list) for element in array]
    for parent in parents:
        if isinstance(parent.get(name), dict):
            parent[name] = [parent[name]]


def _reject_without_array(batch: RecordBatch, arrays: list[Any]) -> None:
    """Reject records without an array of rows, in a table whose records delete rows: they may be truncates."""
    way = batch.rules.paths_to_arrays[0]
    is_missing_array = np.fromiter((array is None for array in arrays), bool, len(arrays))[: len(batch)]
    for record in np.flatnonzero(is_missing_array & batch.is_open).tolist():
        _, is_missing = follow_path(batch.objects[record], way)
        place, state = ".".join(way), "is missing" if is_missing else "is null"
        reason = "missing_field" if is_missing else "null_field"
        batch.reject(record, Rejection(reason, f"{place!r} {state}: {_NO_ROWS}"))


def _limit_memory(rows: Rows) -> None:
    """Reject records whose rows take too much memory, and leave out those after the first ones that take much."""
    batch, rules = rows.batch, rows.batch.rules
    per_row, per_byte = column_memory(rules)
    sizes = np.fromiter((len(value or b"") for value in batch.values), np.int64, len(batch))
    counts = np.bincount(rows.owners, minlength=len(batch))
    memories = counts * (per_row + _repeated_at_most(batch, sizes))
    for record in np.flatnonzero(memories > np.maximum(_MEASURED, counts * per_row)).tolist():
        memories[record] = counts[record] * per_row + _repeated_memory(rows, record)
    parsed_memory = sizes * rules.parser.memory_by_byte if batch.native else np.array(batch.memories, np.int64)
    is_too_large = memories + parsed_memory + sizes * per_byte > MAX_RECORD_MEMORY
    batch.settle(is_too_large, _raise_too_large)
    all_memory = np.cumsum(memories if batch.native else memories + parsed_memory)
    batch.keep_first(max(1, int(np.searchsorted(all_memory, MAX_SLICE_MEMORY))))


def _raise_too_large(_: int) -> None:
    raise too_large_rejection()


def _repeated_at_most(batch: RecordBatch, sizes: Any) -> Any:
    """Bytes of memory at most that a row of each record takes for the values that it has in common with others."""
    memories = np.zeros(len(batch), np.int64)
    for field in batch.rules.outer_fields:
        size, item_bytes = sizes, batch.rules.parser.smallest_item
        if field.place.part != VALUE:
            size = _part_sizes(batch, KEY if field.place.part == PARSED_KEY else field.place.part)
        memories += _REPEATED * (size * max(1, field_memory_per_byte(field, item_bytes)) + field.memory_bytes)
    return memories


def _part_sizes(batch: RecordBatch, part: str) -> Any:
    """The bytes of another part of each record; none of a number."""
    array = batch.arrays.get(part)
    if array is None or pa.types.is_integer(array.type):
        return np.full(len(batch), len(batch.rules.topic or b""))
    return binary_length(array[: len(batch)]).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _repeated_memory(rows: Rows, record: int) -> int:
    """Bytes of memory that the rows of a record take for the values that they have in common with others."""
    parts, memory = rows.batch.parts_of(record), 0
    for level, places, fields in zip(rows.levels, rows.places, rows.batch.rules.outer_levels, strict=True):
        chosen, counts = np.unique(places[rows.owners == record], return_counts=True)
        for place, count in zip(chosen.tolist(), counts.tolist(), strict=True):
            memory += count * sum(_value_memory(level.objects[place], parts, field) for field in fields) * _REPEATED
    return memory


def _value_memory(parent: dict[str, Any], parts: Mapping[str, Any], field: Field) -> int:
    """The memory of the value of a field; nothing if there is none, or if every row is rejected because of it."""
    with suppress(Rejection):
        if field.place.part != VALUE:
            part = parts.get(field.place.part)
            raw = parse_part(part, field) if isinstance(part, ParsedKey) else part
        else:
            raw, is_missing = follow_path(parent, field.place.names)
            raw = follow_path(parent, field.place.former)[0] if is_missing and field.place.former else raw
        return len(raw) if isinstance(raw, bytes) else value_memory(raw, field)
    return 0
