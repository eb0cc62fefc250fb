"""The columns of rows: each converts the values of one field together, and those that are odd by the strict rules."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.batch import RecordBatch
from lakehouse.decoding.conversion.columns import (
    ConvertedColumn,
    convert_column,
    convert_part_column,
    convert_typed_column,
)
from lakehouse.decoding.conversion.numbers import Mask
from lakehouse.decoding.conversion.raw_values import (
    explicit_nulls_of,
    is_unambiguous,
    judge_late_rows,
    read_values,
    read_written_values,
)
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.numbers import has_rounded
from lakehouse.decoding.record_parts import ELEMENT, INDEX, TIME, UNMAPPED, VALUE
from lakehouse.decoding.rows import Rows
from lakehouse.decoding.times import judge_late
from lakehouse.decoding.values import NO_PARTS, convert, convert_field


class _Source(NamedTuple):
    """What a field is read from: objects, and other parts of the records of each; ``field`` has its path in them.

    ``places`` are those of the objects of rows, and ``owners`` of their records; ``None`` if each row has its own.
    """

    objects: Any
    parts: Mapping[str, list[Any]]
    field: Field
    places: Any
    owners: Any

    def used_objects(self, rows: Rows) -> Mask:
        """Which of the objects open rows read."""
        if self.places is None:
            return rows.is_open
        is_used = np.zeros(len(self.objects), bool)
        is_used[self.places[rows.is_open]] = True
        return is_used

    def to_rows(self, values: Any) -> Any:
        """An array or a mask with an item for each object, as one with an item for each row."""
        if self.places is None:
            return values
        return values.take(pa.array(self.places)) if isinstance(values, pa.Array) else values[self.places]


class RowColumns:
    """The columns of rows by name, with masks of the rows with a decimal that lost digits, and of late rows."""

    def __init__(self, rows: Rows, fields: Iterable[Field], *, measures: bool = True) -> None:
        self.rows, self.values = rows, dict[str, pa.Array]()
        self.is_rounded, self.is_late = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        self.has_values = rows.is_open  # also of rows that are rejected as late, and keep them
        self.fields = tuple(fields)
        if measures and rows.batch.measured:
            _reject_too_large(rows, self.fields)
        for field in self.fields:
            self.values[field.name] = self._convert(field) if len(rows) else pa.nulls(0, arrow_type(field.type))

    def _convert(self, field: Field) -> pa.Array:
        batch, source = self.rows.batch, _source_of(self.rows, field)
        column = _convert_fast(source, batch)
        is_odd = ~(column.is_plain & is_unambiguous(source.objects, source.parts, source.field))
        is_odd &= source.used_objects(self.rows)
        if batch.native:
            self.rows.doubt(source.to_rows(is_odd))
        elif is_odd.any():
            column = self._settle(source, field, column, is_odd)
        if column.is_rounded is not None:
            self.is_rounded |= source.to_rows(column.is_rounded)
        return source.to_rows(column.values)

    def _settle(self, source: _Source, field: Field, column: ConvertedColumn, is_odd: Mask) -> ConvertedColumn:
        """Convert odd values by the strict rules, each alone."""
        values, rejections = dict[int, Any](), dict[int, Rejection]()
        for place in np.flatnonzero(is_odd).tolist():
            try:
                values[place] = self._convert_strictly(source, field, place)
            except Rejection as rejection:
                rejections[place] = rejection.without_frames()
        if rejections:
            is_rejected = np.zeros(len(source.objects), bool)
            is_rejected[list(rejections)] = True
            for row in np.flatnonzero(source.to_rows(is_rejected) & self.rows.is_open).tolist():
                self.rows.reject(row, rejections[row if source.places is None else int(source.places[row])])
        return _with_values(column, values, field) if values else column

    def _convert_strictly(self, source: _Source, field: Field, place: int) -> Any:
        rows = self.rows
        if field.place.part == INDEX:
            return convert_field({}, field, {INDEX: int(rows.indices[place])})
        parsed = {ELEMENT: rows.elements[place]} if rows.elements and source.places is None else source.objects[place]
        owner = place if source.owners is None else int(source.owners[place])
        return convert_field(parsed, field, NO_PARTS if field.place.part == VALUE else rows.batch.parts_of(owner))

    def judge_lateness(self) -> None:
        """Mark late rows, and reject them if the table does."""
        lateness, rows = self.rows.batch.rules.lateness, self.rows
        if lateness is None or TIME not in rows.batch.parts:
            return
        times = pa.array(rows.batch.parts[TIME], pa.int64()).take(pa.array(rows.owners))
        events = self.values[lateness.column]
        is_late, is_certain = judge_late_rows(events, times, lateness)
        self.is_late = is_late & rows.is_open
        self.has_values = rows.is_open.copy()
        for row in np.flatnonzero((~is_certain | (is_late & lateness.rejects)) & rows.is_open).tolist():
            try:
                time = times[row].as_py()
                self.is_late[row] = time is not None and judge_late(
                    {lateness.column: events[row].as_py()}, time, lateness
                )
            except Rejection as rejection:
                rows.reject(row, rejection)
                self.is_late[row] = True
        if not lateness.keeps_row:
            self.has_values = rows.is_open

    def explicit_nulls(self, field: Field) -> Mask:
        """Which rows have an explicit null for a field; none of those of which the native parser is not certain."""
        source = _source_of(self.rows, field)
        has_values = self.has_values & ~self.rows.batch.is_uncertain[self.rows.owners]
        if source.places is None:
            has_value = has_values
        else:
            has_value = np.zeros(len(source.objects), bool)
            has_value[source.places[has_values]] = True
        return np.asarray(source.to_rows(explicit_nulls_of(source.objects, source.field, has_value)))


def _source_of(rows: Rows, field: Field) -> _Source:
    batch = rows.batch
    if batch.rules.rows_from is None:
        owners = None if len(rows) == len(batch) else rows.owners
        return _Source(rows.objects, rows.parts(), field, None, owners)
    if field.place.part == INDEX:
        return _Source(rows.objects, {INDEX: rows.indices.tolist()}, field, None, rows.owners)
    if field.place.part != VALUE or field.place.of_parent:
        level = rows.levels[field.place.level]
        return _Source(level.objects, batch.parts, field, rows.places[field.place.level], level.owners)
    if len(field.place.names) == 1:
        return _Source([{ELEMENT: element} for element in rows.elements], {}, field, None, rows.owners)
    return _Source(rows.objects, {}, field.in_element(), None, rows.owners)


def _convert_fast(source: _Source, batch: RecordBatch) -> ConvertedColumn:
    field = source.field
    if field.place.part == INDEX:
        return convert_column(source.parts[INDEX], field)
    if field.place.part not in (VALUE, UNMAPPED) or field.form.reads_text:
        return convert_part_column(read_written_values(source.objects, source.parts, field), field)
    raw_values = read_values(source.objects, source.parts, field)
    if batch.native and not batch.rules.has_changes:
        return convert_column(raw_values, field)
    return convert_typed_column(raw_values, field, is_native=bool(batch.native))


def _with_values(column: ConvertedColumn, values: Mapping[int, Any], field: Field) -> ConvertedColumn:
    """A column with other values at some places."""
    order, count = np.arange(len(column.values)), len(column.values)
    order[list(values)] = np.arange(count, count + len(values))
    type_ = arrow_type(field.type)
    all_values = pa.concat_arrays([column.values, pa.array(values.values(), type_, size=len(values))])
    is_rounded = column.is_rounded
    if "DECIMAL" in field.type:
        is_rounded = np.zeros(count, bool) if is_rounded is None else is_rounded
        is_rounded[list(values)] = [has_rounded(value) for value in values.values()]
    return column._replace(values=all_values.take(pa.array(order)), is_rounded=is_rounded)


def _reject_too_large(rows: Rows, fields: tuple[Field, ...]) -> None:
    """Reject rows whose values take too much memory, of the few whose records may."""
    batch = rows.batch
    for row, record in enumerate(rows.owners.tolist()):
        if record in batch.measured and rows.is_open[row]:
            try:
                convert(batch.objects[record], fields, batch.parts_of(record), batch.measured[record])
            except Rejection as rejection:
                rows.reject(row, rejection)
