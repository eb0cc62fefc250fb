"""The rules for ``rows_from``: the elements of an array in a record are rows."""

from collections.abc import Iterator, Sequence

from lakehouse.declaration.columns import Column
from lakehouse.declaration.conditions import FieldIs, Tombstone
from lakehouse.declaration.names import array_step, json_names
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Reference
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import is_text
from lakehouse.decoding.record_parts import (
    ELEMENT,
    ITEMS,
    PARSED_KEY,
    VALUE,
    Element,
    ElementIndex,
    ParentField,
    UnmappedFields,
    shared_way,
)

_NAME_ARRAY = 'Name the field with the array, such as rows_from="items", or its path. If the record is the array: ()'
_ARRAYS = (ELEMENT, ITEMS)
"""The first name of the path to the rows, if the record itself is an array."""
_REMOVE_ONE = "Remove one of the two."
_IN_PLACE = "Declare the array {!r} as a column, such as ARRAY<STRING>, and read its element in a view."
_IN_ROWS = "For a row per element, write rows_from with the path to {!r}, and paths within an element."


def rows_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the array whose elements are rows, and with the columns that are read around it."""
    path = table.rows_path
    yield from _condition_problems(table)
    if path is None:
        for column in table.record_columns:
            if isinstance(column.source, ParentField | Element | ElementIndex):
                kind = type(column.source).__name__
                message = f"column {column.name}: {kind} requires rows_from, without which a record is one row"
                yield message, "Declare rows_from=, or name a field or its path as source."
        return
    if (path != (ELEMENT,) and not (all(path) and all(map(is_text, path)))) or ELEMENT in (
        table.rows_from,
        getattr(table.rows_from, "path", None),
    ):
        yield f"rows_from has an empty name, or one that is not valid UTF-8: {path}", _NAME_ARRAY
    if path[-1].endswith(ITEMS):
        message = f"rows_from: {path[-1]!r} is last, but only a name on the way to the array of the rows ends with []"
        yield message, _NAME_ARRAY if path == (ITEMS,) else f"Write {path[-1].removesuffix(ITEMS)!r}."
    if ITEMS in path[1:-1]:
        yield "rows_from: '[]' is only allowed at the beginning", "Write it at the end of the name of an array."
    yield from _format_problems(table)
    yield from _option_problems(table)
    yield from _parent_problems(table, path)


def _condition_problems(table: TableParts) -> Iterator[Problem]:
    for option, condition in table.all_conditions:
        if not isinstance(condition, FieldIs) or not isinstance(condition.source, ParentField):
            continue
        if option != "deletes: when" or table.rows_path is None:
            message = f"{option}: ParentField is only for the deletes of a table with rows_from"
            yield message, "Name the field, or its path, as source of FieldIs."
        elif table.rows_path[0] in _ARRAYS or any(name.endswith(ITEMS) for name in condition.path):
            message = f"deletes: when: {'.'.join(condition.path)!r} is not a field of the record itself"
            yield message, "Name a field of the record, or one of the element: FieldIs without ParentField."


def _format_problems(table: TableParts) -> Iterator[Problem]:
    form = table.format
    if form.is_text:
        yield f"rows_from: values of format {form.name} contain no arrays", "Remove rows_from."
    if (table.rows_path or (None,))[0] in _ARRAYS and not form.may_be_arrays:
        yield (
            f"rows_from={table.rows_from!r}: a record of format {form.name} is not an array",
            "Name the field that contains the array.",
        )


def _option_problems(table: TableParts) -> Iterator[Problem]:
    options = {
        "truncates of deletes": table.deletes.truncates,
        "purge of deletes": table.deletes.purge,
        "base": table.base,
    }
    for option in (name for name, value in options.items() if value):
        yield f"rows_from and {option} cannot be combined", f"{_WHY_NOT[option]} {_REMOVE_ONE}"
    if isinstance(table.deletes.when, Tombstone):
        message = "deletes: a tombstone has no elements, but rows_from makes rows of elements"
        yield message, "Use FieldIs with a field of the elements, or remove one of the two."
    if any(isinstance(where, FieldIs) for where in table.conditions) and (table.rows_path or (None,))[0] in _ARRAYS:
        message = "where: the record is an array, which has no fields"
        yield (
            message,
            "Use HeaderIs, or remove where. A condition on the elements is rows_from=Explode(..., where=...).",
        )


def _parent_problems(table: TableParts, path: tuple[str, ...]) -> Iterator[Problem]:
    for column in table.record_columns:
        if isinstance(column.source, UnmappedFields):
            message = f"column {column.name}: rows_from and UnmappedFields() cannot be combined"
            yield message, 'To keep an element with all of its fields, declare source=Element() and written="json".'
        if isinstance(column.source, Element) and column.formerly is not None:
            yield f"column {column.name}: formerly is not allowed for an element as a whole", "Remove formerly."
        if not isinstance(column.source, ParentField):
            continue
        names = column.source.path
        if path == (ELEMENT,):
            message = f"column {column.name}: ParentField is not allowed, because the record itself is the array"
            yield message, "No field is around the elements. Name a field of an element."
        else:
            yield from _way_problems(table, column.name, names)
        former = column.field.place.former
        if former and shared_way(former, path) != shared_way(names, path):
            message = f"column {column.name}: formerly {'.'.join(former)} is in another object than its source"
            yield message, "Begin both paths with the same arrays on the way to the rows, or remove formerly."


def _way_problems(table: TableParts, column_name: str, names: tuple[str, ...]) -> Iterator[Problem]:
    path = table.rows_path or ()
    place = f"column {column_name}: ParentField {'.'.join(names)}"
    bare_names = [name.removesuffix(ITEMS) for name in path[:-1]]
    is_same = [name in (outer, bare) for name, outer, bare in zip(names, path, [*bare_names, path[-1]], strict=False)]
    if all(is_same):
        message = f"{place} contains the array of the rows, or is in it"
        yield message, "Every row would repeat the array. Name another field, or one of an element, as source."
        return
    depth = is_same.index(False)
    array = next((outer for name, outer in zip(names[:depth], path, strict=False) if name != outer), None)
    if path[0] == ITEMS and names[0] != ITEMS:
        yield f"{place}: the record is an array, which has no fields", "Begin the path with '[]'."
    elif array is not None:
        message = f"{place} is in the array {array.removesuffix(ITEMS)}, of which each row has one element around it"
        yield message, f"Write {array!r} in the path."


_WHY_NOT = {
    "truncates of deletes": "An element is about one row.",
    "purge of deletes": "The order of a purged delete has no place for an element.",
    "base": "Base files have no records around their rows.",
}


def array_problems(table: TableParts) -> Iterator[Problem]:
    """Problems of the paths of columns, conditions and rows: a place in an array is not the name of a field."""
    for column in table.record_columns:
        for names in _paths_of(column):
            yield from _path_problems(f"column {column.name}", _names_of_fields(names, column, table))
    for option, condition in table.all_conditions:
        if isinstance(condition, FieldIs) and not isinstance(condition.source, ParentField):
            yield from _path_problems(option, json_names(condition.path, table.format))
    ways = {"rows_from": table.rows_path or (), "in_base64": _base64_names(table)}
    for option, way in ways.items():
        yield from _path_problems(option, [name.removesuffix(ITEMS) for name in way])


def reference_array_problems(reference: Reference) -> Iterator[Problem]:
    """What is wrong with the paths of the columns of a reference."""
    for column in reference.columns:
        for names in _paths_of(column):
            yield from _path_problems(f"column {column.name}", json_names(names, reference.format))


def _paths_of(column: Column) -> Sequence[tuple[str, ...]]:
    if column.field.place.part not in (VALUE, PARSED_KEY):
        return ()
    return (column.field.place.names, column.field.place.former)


def _names_of_fields(names: Sequence[str], column: Column, table: TableParts) -> Sequence[str]:
    """The names of fields in a path of a column, without ``[]`` of the arrays that are on the way to its row."""
    if column.field.place.part == PARSED_KEY:
        return names
    if isinstance(column.source, ParentField):
        return [name.removesuffix(ITEMS) if name in (table.rows_path or ()) else name for name in names]
    return json_names(names, table.format)


def _base64_names(table: TableParts) -> Sequence[str]:
    path = table.format.in_base64
    return (path,) if isinstance(path, str) else path


def _path_problems(place: str, names: Sequence[str]) -> Iterator[Problem]:
    step = array_step(names)
    if step is None:
        return
    array, number = step["array"] or "the record", step["place"]
    message = f"{place}: its path leads into an array by {step[0]!r}, which is not a field"
    yield message, (_IN_PLACE if number.isdigit() else _IN_ROWS).format(array)
