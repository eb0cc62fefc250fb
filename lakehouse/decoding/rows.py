"""The rows of the records of a batch: the records themselves, or the elements of an array in each.

Also which of them have values that no row of a reference has.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.compute import and_, invert, is_in

from lakehouse.decoding.batch import RecordBatch
from lakehouse.decoding.conversion.numbers import Mask
from lakehouse.decoding.deletes import former_rows, has_same_key, require_same_key
from lakehouse.decoding.effects import have_value
from lakehouse.decoding.fields import Rejection, UnopenedText, json_kind
from lakehouse.decoding.record_parts import ELEMENT


class Level(NamedTuple):
    """The objects around rows at one level: those of the records, or the elements of an array on the way to the rows.

    ``owners`` are the places of their records, and ``parents`` those of the objects around them. ``arrays`` are the
    values at the path to the next array.
    """

    objects: Sequence[dict[str, Any]]
    owners: Any
    parents: Any
    arrays: list[Any]


class Rows:
    """Rows of a batch, in the order of their records.

    ``owners`` are the places of their records in the batch. ``objects`` are their fields: those of the record, or of
    the element; empty if the element is something else. ``elements`` are the elements themselves, ``indices`` their
    places in their records, and ``places`` those of the objects around them in ``levels``. ``is_open`` is a mask of
    the rows that are neither rejected nor filtered; ``rejections`` and ``is_filtered`` are those of others.
    """

    def __init__(
        self, batch: RecordBatch, owners: Any, objects: list[dict[str, Any]], elements: list[Any], places: list[Any]
    ) -> None:
        self.batch, self.owners, self.objects, self.elements, self.places = batch, owners, objects, elements, places
        self.levels: list[Level] = []
        self.indices: Any = None
        self.is_open: Mask = batch.is_open[owners]
        self.is_filtered: Mask = np.zeros(len(owners), bool)
        self.rejections: dict[int, Rejection] = {}

    def __len__(self) -> int:
        return len(self.objects)

    def take(self, places: Any) -> "Rows":
        """Some of the rows."""
        chosen = places.tolist()
        elements = [self.elements[row] for row in chosen] if self.elements else []
        objects = [self.objects[row] for row in chosen]
        rows = Rows(self.batch, self.owners[places], objects, elements, [level[places] for level in self.places])
        rows.levels, rows.is_open, rows.is_filtered = self.levels, self.is_open[places], self.is_filtered[places]
        rows.indices = None if self.indices is None else self.indices[places]
        rows.rejections = {new: self.rejections[row] for new, row in enumerate(chosen) if row in self.rejections}
        return rows

    def reject(self, row: int, rejection: Rejection) -> None:
        """Decide that a row is rejected."""
        self.rejections[row] = rejection.without_frames()
        self.is_open[row] = False

    def settle(self, is_odd: Mask, decide: Callable[[int], None]) -> None:
        """Decide about open rows like ``RecordBatch.settle``; a row without certainty leaves its whole record."""
        if self.batch.native:
            self.doubt(is_odd)
            return
        for row in np.flatnonzero(is_odd & self.is_open).tolist():
            try:
                decide(row)
            except Rejection as rejection:
                self.reject(row, rejection)

    def doubt(self, is_uncertain: Mask) -> None:
        """Leave the records of open rows to the strict parser."""
        is_odd = np.zeros(len(self.batch), bool)
        is_odd[self.owners[is_uncertain & self.is_open]] = True
        self.batch.doubt(is_odd)

    def parts(self) -> Mapping[str, list[Any]]:
        """The other parts of their records, by part."""
        if len(self) == len(self.batch):
            return self.batch.parts
        return {part: [values[owner] for owner in self.owners.tolist()] for part, values in self.batch.parts.items()}


def deleting_rows(rows: Rows) -> Mask:
    """Which elements delete the row of their key; those that cannot be a row are rejected, or filtered."""
    rules = rows.batch.rules
    element_filters = [rule for rule in rules.where if rule.is_about_element]
    if rules.needs_objects or element_filters:
        is_object = [isinstance(element, dict) for element in rows.elements]
        rows.settle(~np.array(is_object, bool), lambda row: _raise_no_object(rows.elements[row]))
    for where in element_filters:
        takes = have_value(rows, [{ELEMENT: element} for element in rows.elements], where, where.takes_fields)
        rows.is_filtered |= rows.is_open & ~takes
        rows.is_open &= takes
    for row in np.flatnonzero(rows.is_filtered).tolist():
        rows.objects[row].clear()  # its fields are not those of a row, so none of them is unmapped
    if rules.deletes is None:
        return np.zeros(len(rows), bool)
    objects: list[Any] = [{ELEMENT: element} for element in rows.elements]
    if rules.deletes_by_record:
        objects = [rows.batch.objects[owner] for owner in rows.owners.tolist()]
    deletes = have_value(rows, objects, rules.deletes, rules.deletes.is_delete)
    _require_same_keys(rows, ~deletes)
    return deletes & rows.is_open


def _raise_no_object(element: Any) -> None:
    if isinstance(element, UnopenedText) and element.rejection:
        raise element.rejection
    raise Rejection("not_an_object", f"the element is {json_kind(element)}, not an object")


def _require_same_keys(rows: Rows, is_update: Mask) -> None:
    """Reject the rows whose former rows, next to their arrays, had another key."""
    level, path, ways = rows.levels[-1], rows.batch.rules.paths_to_arrays[-1], rows.batch.rules.key_ways
    former = {place: former_rows(level.objects[place], path) for place in np.unique(rows.places[-1]).tolist()}
    if all(row == [None] for row in former.values()):
        return
    starts = np.flatnonzero(np.diff(rows.places[-1], prepend=-1))
    places = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    pairs = [
        former[parent][place] if place < len(former[parent]) else None
        for parent, place in zip(rows.places[-1].tolist(), places.tolist(), strict=True)
    ]
    is_same = (has_same_key(old, row, ways) for old, row in zip(pairs, rows.elements, strict=True))
    is_odd = ~np.fromiter(is_same, bool, len(rows)) & is_update
    rows.settle(is_odd, lambda row: require_same_key(pairs[row], rows.elements[row], ways))


class KnownValues(NamedTuple):
    """The values of some columns in all rows of a reference: the names of the columns, and an array for each."""

    names: tuple[str, ...]
    arrays: tuple[pa.Array, ...]


def unknown_finder(known_values: KnownValues) -> Callable[[pa.StructArray], pa.Array]:
    """Return a function that says which rows have values in all of the columns, but not those of a known row."""
    names, (first, *other_arrays) = known_values
    known_rows = (
        set(zip(first.to_pylist(), *(array.to_pylist() for array in other_arrays), strict=True))
        if other_arrays
        else set()
    )

    def find_unknown(rows: pa.StructArray) -> pa.Array:
        columns = [rows.field(name) for name in names]
        has_values = columns[0].is_valid()
        for column in columns[1:]:
            has_values = and_(has_values, column.is_valid())
        if not other_arrays:
            return and_(has_values, invert(is_in(columns[0], value_set=first)))
        keys = zip(*(column.to_pylist() for column in columns), strict=True)
        return and_(has_values, pa.array([key not in known_rows for key in keys], pa.bool_()))

    return find_unknown
