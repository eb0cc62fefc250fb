"""The rules for paths that lead into an array: only ``rows_from`` may do that."""

from collections.abc import Iterator, Sequence

from lakehouse.declaration.array_steps import array_step, json_names
from lakehouse.declaration.delete_conditions import FieldIs
from lakehouse.declaration.references import Reference
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.record_parts import ITEMS, PARSED_KEY, VALUE, ParentField

_IN_PLACE = "Declare the array {!r} as a column, such as ARRAY<STRING>, and read its element in a view."
_IN_ROWS = "For a row per element, write rows_from with the path to {!r}, and paths within an element."


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
    if column.sql is not None or column.field.part not in (VALUE, PARSED_KEY):
        return ()
    return (column.field.names, column.field.former)


def _names_of_fields(names: Sequence[str], column: Column, table: TableParts) -> Sequence[str]:
    """The names of fields in a path of a column, without ``[]`` of the arrays that are on the way to its row."""
    if column.field.part == PARSED_KEY:
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
