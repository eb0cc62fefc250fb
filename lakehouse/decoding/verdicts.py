"""Turn many records into the verdicts on their rows: one row for each record, or one for each element of an array.

Both parsers of JSON give the same rows, so the result does not show which of them read a record. Pure: it runs on the
driver and, shipped by value, on Spark's workers.
"""

import gc
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.compute import and_, if_else, indices_nonzero, invert, is_in

from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.batch import PartArrays, RecordBatch, parse, tombstones, unpack
from lakehouse.decoding.columns import RowColumns
from lakehouse.decoding.effects import Effects, choose_by_header, choose_by_value
from lakehouse.decoding.exploded_rows import rows_of
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.json_parsing import Native
from lakehouse.decoding.memory import MAX_SLICE_MEMORY
from lakehouse.decoding.record_parts import TIME
from lakehouse.decoding.rows import Rows, deleting_rows
from lakehouse.decoding.rules import Rules, column_memory
from lakehouse.decoding.staged import (
    DELETED,
    DETAIL,
    EMPTY,
    EXPLICIT_NULL,
    FILTERED,
    INDEX,
    LATE,
    NO_ROWS,
    ORIGIN,
    REASON,
    ROUNDED,
    ROWLESS,
    SEQUENCE,
    SNAPSHOT,
)
from lakehouse.decoding.unmapped_fields import count_unmapped
from lakehouse.decoding.values import NO_PARTS


class DecodedRecords(NamedTuple):
    """The verdicts on records, and the number of records with each unmapped field.

    One verdict for each record, a struct: ``_reason`` and ``_detail`` (NULL if the record is valid; the reason
    ``staged.FILTERED`` does not reject it), ``_late``, a value for each field (NULL if the record is rejected), for
    each field of ``null_erases`` whether it is an explicit null, and what ``_verdict_names`` lists. If the elements of
    an array are rows, a list of verdicts for each record.
    """

    verdicts: pa.StructArray | pa.ListArray
    unmapped_counts: Counter[str]


def decode_slices(
    values: pa.Array, broker_times: pa.Array | None, rules: Rules, native: Native | None, parts: PartArrays = NO_PARTS
) -> Iterator[DecodedRecords]:
    """Decode records like ``decode_values``, in slices that take little memory."""
    for begin, end in slice_bounds(values, rules):
        start, is_done = begin, False
        while not is_done:
            sliced_parts = {part: array[start:end] for part, array in parts.items()}
            times = None if broker_times is None else broker_times[start:end]
            decoded_records = decode_values(values[start:end], times, rules, native, sliced_parts)
            start += len(decoded_records.verdicts)
            is_done = start >= end
            yield decoded_records


def slice_bounds(values: pa.Array, rules: Rules) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each slice of records; the bytes of their values limit the memory of a slice."""
    per_row, per_byte = column_memory(rules)
    per_byte += rules.parser.memory_by_byte

    def split_range(begin: int, end: int) -> Iterator[tuple[int, int]]:
        count, middle = end - begin, (begin + end) // 2
        if count <= 1 or count * per_row + values[begin:end].nbytes * per_byte <= MAX_SLICE_MEMORY:
            yield begin, end
        else:
            yield from split_range(begin, middle)
            yield from split_range(middle, end)

    return split_range(0, len(values))


def decode_values(
    values: pa.Array, broker_times: pa.Array | None, rules: Rules, native: Native | None, parts: PartArrays = NO_PARTS
) -> DecodedRecords:
    """Decode records; ``broker_times`` are in microseconds since 1970, UTC, if the rules need them.

    If the first records take so much memory that more would not fit, only they get verdicts.
    """
    parts = {**parts, TIME: broker_times}
    with _paused_collector():
        decoded, uncertain = decode_once(values, parts, rules, native)
    if not len(uncertain):
        return decoded
    places = pa.array(uncertain)
    exact_parts = {part: None if array is None else array.take(places) for part, array in parts.items()}
    with _paused_collector():
        exact, _ = decode_once(values.take(places), exact_parts, rules, None)
    count = len(decoded.verdicts)
    if len(exact.verdicts) < len(uncertain):
        count = int(uncertain[len(exact.verdicts)])
        first_parts = {part: array[:count] for part, array in parts.items() if array is not None and part != TIME}
        return decode_values(
            values[:count], None if broker_times is None else broker_times[:count], rules, native, first_parts
        )
    order = np.arange(count)
    order[uncertain] = np.arange(count, count + len(uncertain))
    verdicts = pa.concat_arrays([decoded.verdicts, exact.verdicts]).take(pa.array(order))
    return DecodedRecords(verdicts, decoded.unmapped_counts + exact.unmapped_counts)


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Do not look for cycles: parsed records have none, and the search takes a third of the time of nested ones."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def decode_once(
    values: pa.Array, parts: Mapping[str, pa.Array | None], rules: Rules, native: Native | None
) -> tuple[DecodedRecords, Any]:
    """Decode records with one parser; also return the places of those of which it is not certain."""
    batch = RecordBatch(values, parts, rules, native)
    unpack(batch)
    choose_by_header(batch)
    are_tombstones = tombstones(batch)
    parse(batch, are_tombstones)
    choose_by_value(batch, are_tombstones)
    effects = Effects(batch, are_tombstones)
    is_read = batch.is_open.copy()
    rows = rows_of(batch)
    groups = _convert_groups(rows, effects)
    verdicts = _assemble(rows, groups)
    is_counted = (is_read[: len(batch)] & ~batch.is_uncertain).tolist()
    counts = count_unmapped([*compress(batch.objects, is_counted)], batch.rules.mapped_fields, batch.rules.rows_from)
    return DecodedRecords(verdicts, counts), np.flatnonzero(batch.is_uncertain)


class _Group(NamedTuple):
    """Some rows, with the places of all of them, and the columns that are read of them."""

    places: Any
    columns: RowColumns


def _convert_groups(rows: Rows, effects: Effects) -> dict[str, _Group]:
    """Convert rows that are stored; of those that delete, or are about no row, only what is read of them."""
    rules, count = rows.batch.rules, len(rows)
    fields = rules.ordered_fields
    deletes, rowless = effects.deletes, effects.rowless
    if rules.rows_from is not None:
        deletes, rowless = deleting_rows(rows), np.zeros(count, bool)
    chosen: dict[str, tuple[Any, tuple[Field, ...]]] = {"": (~deletes & ~rowless, fields)}
    if deletes.any() and rules.deletes:
        chosen[DELETED] = deletes, rules.deletes.read_fields(fields)
    if rowless.any():
        chosen[ROWLESS] = rowless, rules.truncates.read_fields(fields) if rules.truncates else ()
    groups = {}
    for name, (is_chosen, read_fields) in chosen.items():
        places = np.flatnonzero(is_chosen)
        columns = RowColumns(rows if len(places) == count else rows.take(places), read_fields, measures=name != ROWLESS)
        if not name:
            columns.judge_lateness()
        groups[name] = _Group(places, columns)
    return groups


def _assemble(rows: Rows, groups: Mapping[str, _Group]) -> pa.StructArray | pa.ListArray:
    """Put the verdicts on rows in their order; those on records as a whole among them, if elements are rows."""
    batch, count = rows.batch, len(rows)
    is_list = batch.rules.rows_from is not None
    rejections = {
        int(places[row]): rejection
        for places, columns in groups.values()
        for row, rejection in columns.rows.rejections.items()
    }
    rejections |= rows.rejections if is_list else batch.rejections
    verdicts = _row_verdicts(rows, groups, _reasons(rejections, (rows if is_list else batch).is_filtered, count))
    if not is_list:
        return verdicts
    row_counts = np.bincount(rows.owners, minlength=len(batch))
    whole_records = np.flatnonzero(row_counts == 0)
    if len(whole_records):
        order = np.argsort(np.concatenate([rows.owners, whole_records]), kind="stable")
        verdicts = pa.concat_arrays([verdicts, _whole_verdicts(batch, whole_records, verdicts.type)]).take(
            pa.array(order)
        )
    ends = np.cumsum(np.concatenate([[0], np.maximum(row_counts, 1)]))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), verdicts)


def _reasons(rejections: Mapping[int, Rejection], is_filtered: Any, count: int) -> list[pa.Array]:
    """The reason and the detail of each verdict."""
    reasons: list[str | None] = [None] * count
    details: list[str | None] = [None] * count
    for place in np.flatnonzero(is_filtered).tolist():
        reasons[place] = FILTERED
    for place, rejection in rejections.items():
        reasons[place], details[place] = rejection.reason, rejection.detail
    return [pa.array(reasons, pa.string()), pa.array(details, pa.string())]


def _row_verdicts(rows: Rows, groups: Mapping[str, _Group], reasons: list[pa.Array]) -> pa.StructArray:
    batch, rules, count = rows.batch, rows.batch.rules, len(rows)

    def spread(of_group: Any, names: Iterable[str] = groups) -> Any:
        """A mask with what each of some groups says about its rows."""
        mask = np.zeros(count, bool)
        for name in names:
            if name in groups:
                mask[groups[name].places] = of_group(groups[name].columns)
        return mask

    is_late = spread(lambda columns: columns.is_late, [""])
    columns = [*reasons, pa.array(is_late), *(_column_of(groups, field, count) for field in rules.fields)]
    for field in rules.null_erases:
        has_null = spread(lambda columns, field=field: columns.explicit_nulls(field), [""])
        columns.append(pa.array(has_null))
    flags = {name: spread(lambda columns: columns.rows.is_open, [name]) for name in (DELETED, ROWLESS)}
    flags[ROUNDED] = spread(lambda columns: columns.is_rounded & columns.has_values)
    columns += [pa.array(flags[name]) for name in rules.marks]
    if rules.has_changes:
        columns += _places_of_changes(
            batch, spread(lambda columns: columns.rows.is_open), flags[DELETED] | flags[ROWLESS]
        )
    if rules.rows_from is not None:
        columns.append(pa.array(rows.indices, pa.int32()))
    return pa.StructArray.from_arrays(columns, _verdict_names(rules))


def _column_of(groups: Mapping[str, _Group], field: Field, count: int) -> pa.Array:
    """The column of a field: NULL in rows that are rejected, or of which it is not read."""
    arrays, type_ = [], arrow_type(field.type)
    for places, columns in groups.values():
        values = columns.values.get(field.name)
        values = pa.nulls(len(places), type_) if values is None else values
        arrays.append(values if columns.has_values.all() else if_else(pa.array(columns.has_values), values, None))
    if len(arrays) == 1 and len(arrays[0]) == count:
        return arrays[0]
    order = np.argsort(np.concatenate([places for places, _ in groups.values()]), kind="stable")
    return pa.concat_arrays(arrays).take(pa.array(order))


def _places_of_changes(batch: RecordBatch, is_open: Any, is_without_row: Any) -> list[pa.Array]:
    """The place of each change in the order of its source, what it is in a snapshot, and the part of its source."""
    changes = [change if flag else None for change, flag in zip(batch.changes, is_open.tolist(), strict=True)]
    stored_changes = [None if flag else change for change, flag in zip(changes, is_without_row.tolist(), strict=True)]
    return [
        pa.array([change and change.sequence for change in changes], pa.int64()),
        pa.array([change and change.snapshot for change in stored_changes], pa.string()),
        pa.array([change and change.origin for change in changes], pa.int64()),
    ]


def _whole_verdicts(batch: RecordBatch, records: Any, type_: pa.StructType) -> pa.StructArray:
    """The verdicts on records that have no row."""
    places = {record: place for place, record in enumerate(records.tolist())}
    rejections = {places[record]: rejection for record, rejection in batch.rejections.items() if record in places}
    reasons, details = _reasons(rejections, batch.is_filtered[records], len(records))
    columns = [if_else(reasons.is_valid(), reasons, EMPTY), details]
    flags = (LATE, *batch.rules.marks, *(f"{EXPLICIT_NULL}{field.name}" for field in batch.rules.null_erases))
    columns += [
        pa.repeat(pa.scalar(False), len(records)) if field.name in flags else pa.nulls(len(records), field.type)
        for field in list(type_)[2:]
    ]
    return pa.StructArray.from_arrays(columns, fields=list(type_))


def _verdict_names(rules: Rules) -> list[str]:
    """The names of what a verdict has, in their order."""
    names = [REASON, DETAIL, LATE, *(field.name for field in rules.fields)]
    names += [*(f"{EXPLICIT_NULL}{field.name}" for field in rules.null_erases), *rules.marks]
    names += [SEQUENCE, SNAPSHOT, ORIGIN] if rules.has_changes else []
    return names if rules.rows_from is None else [*names, INDEX]


def with_rows(verdicts: pa.ListArray, rows: pa.StructArray) -> pa.ListArray:
    """Return lists of the same lengths with other rows."""
    return pa.ListArray.from_arrays(verdicts.offsets, rows)


def first_rejected(verdicts: pa.ListArray) -> pa.Array:
    """Return which of the verdicts in lists of them is the first in its list that rejects."""
    reasons = verdicts.values.field(REASON)
    is_rejected = and_(reasons.is_valid(), invert(is_in(reasons, pa.array(NO_ROWS))))
    places = indices_nonzero(is_rejected).to_pylist()
    if not places:
        return pa.repeat(pa.scalar(False), len(reasons))
    offsets, is_first, begin = verdicts.offsets.to_pylist(), [False] * len(reasons), -1
    for place in places:
        if place >= begin:
            is_first[place] = True
            begin = offsets[bisect_right(offsets, place)]  # of the next list
    return pa.array(is_first)
