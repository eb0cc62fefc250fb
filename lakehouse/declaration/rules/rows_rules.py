"""The rules for ``rows_from``: the elements of an array in a record are rows."""

from collections.abc import Iterator

from lakehouse.declaration.delete_conditions import FieldIs, Tombstone
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import is_text
from lakehouse.decoding.record_parts import ELEMENT, Element, ParentField, UnmappedFields

_NAME_ARRAY = 'Name the field with the array, such as rows_from="items", or its path. If the record is the array: ()'
_REMOVE_ONE = "Remove one of the two."


def rows_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the array whose elements are rows, and with the columns that are read around it."""
    path = table.rows_path
    if path is None:
        for column in table.columns:
            if isinstance(column.source, ParentField | Element):
                kind = type(column.source).__name__
                message = f"column {column.name}: {kind} requires rows_from, without which a record is one row"
                yield message, "Declare rows_from=, or name a field or its path as source."
        return
    if (path != (ELEMENT,) and not (all(path) and all(map(is_text, path)))) or table.rows_from == ELEMENT:
        yield f"rows_from has an empty name, or one that is not valid UTF-8: {path}", _NAME_ARRAY
    yield from _format_problems(table)
    yield from _option_problems(table)
    yield from _parent_problems(table, path)


def _format_problems(table: TableParts) -> Iterator[Problem]:
    form = table.format
    if form.is_text:
        yield f"rows_from: values of format {form.name} contain no arrays", "Remove rows_from."
    if table.rows_path == (ELEMENT,) and not form.may_be_arrays:
        yield f"rows_from=(): a record of format {form.name} is not an array", "Name the field that contains the array."


def _option_problems(table: TableParts) -> Iterator[Problem]:
    options = {
        "apply_as_truncates": table.apply_as_truncates,
        "purge_deletes": table.purge_deletes,
        "base": table.base,
    }
    for option in (name for name, value in options.items() if value):
        yield f"rows_from and {option} cannot be combined", f"{_WHY_NOT[option]} {_REMOVE_ONE}"
    if isinstance(table.apply_as_deletes, Tombstone):
        message = "apply_as_deletes: a tombstone has no elements, but rows_from makes rows of elements"
        yield message, "Use FieldIs with a field of the elements, or remove one of the two."
    if isinstance(table.where, FieldIs) and table.rows_path == (ELEMENT,):
        message = "where: the record is an array, which has no fields"
        yield message, "Use HeaderIs, or remove where. A condition on the elements belongs into a view."


def _parent_problems(table: TableParts, path: tuple[str, ...]) -> Iterator[Problem]:
    for column in table.columns:
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
        elif names[: len(path)] == path[: len(names)]:
            message = f"column {column.name}: ParentField {'.'.join(names)} contains the array of the rows, or is in it"
            yield message, "Every row would repeat the array. Name another field, or one of an element, as source."


_WHY_NOT = {
    "apply_as_truncates": "An element is about one row.",
    "purge_deletes": "The order of a purged delete has no place for an element.",
    "base": "Base files have no records around their rows.",
}
