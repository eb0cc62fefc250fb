"""The rules for columns and conditions that a format restricts. Each rule yields what is wrong, and what to do."""

from collections.abc import Iterator

from lakehouse.declaration.delete_conditions import FieldIs
from lakehouse.declaration.misspelt import spelling_hint
from lakehouse.declaration.references import Reference
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.formats import Format, format_problems
from lakehouse.decoding.record_parts import UNMAPPED, VALUE, ValueOrObject

_WHOLE_TYPES = ("INT", "BIGINT")
_CONNECT_DECIMALS = (
    "The schema of a record says how its decimals are written. Remove written. If the records have no schemas, declare"
    " Json(), and each column with a path, such as source=('payload', 'price')."
)


def format_column_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the columns of a table because of its format."""
    for column in table.record_columns:
        if column.field.part != VALUE:
            continue
        yield from _column_problems(column, table.format)
    yield from _base64_problems(table)
    yield from _unmapped_problems(table)
    for option, condition in table.all_conditions:
        if isinstance(condition, FieldIs):
            yield from _condition_problems(table, option, condition)


def _column_problems(column: Column, form: Format) -> Iterator[Problem]:
    """What is wrong with a column that reads a field of a value in this format."""
    for path in filter(None, (column.field.names, column.field.former)):
        yield from _path_problems(form, f"column {column.name}", path)
    if column.written == "connect" and (form.written or form).describes_decimals:
        message = f"column {column.name}: format {form.name} and written='connect' cannot be combined"
        yield message, _CONNECT_DECIMALS
    if form.has_whole_numbers and column.type not in _WHOLE_TYPES:
        message = f"column {column.name}: type {column.type} is not allowed in format {form.name}"
        yield message, "Its values are whole numbers. Declare BIGINT, or INT; the bytes of a double are others."


def _base64_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the columns whose field may hold JSON in base64."""
    path = table.format.json_options.base64_path or ()
    for column in table.record_columns:
        if isinstance(column.source, ValueOrObject) and column.source.whole_path[-1:] == path[-1:]:
            message = f"column {column.name}: the field of a ValueOrObject cannot be that of in_base64"
            yield message, "Name the field within the object as source, or remove in_base64."


def _unmapped_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the columns that take what no other column reads."""
    names = [column.name for column in table.record_columns if column.field.part == UNMAPPED]
    if names and table.format.typed:
        message = f"column {names[0]}: UnmappedFields() is not allowed in format {table.format.name}"
        yield message, "Its values have types that JSON cannot write. Declare a column for each field that you need."
    if len(names) > 1:
        message = f"columns {' and '.join(names)} read the unmapped fields"
        yield message, "One column takes all of them. Remove the others."


def _condition_problems(table: TableParts, option: str, condition: FieldIs) -> Iterator[Problem]:
    yield from _path_problems(table.format, option, condition.path)
    for value in condition.values if table.format.is_text and len(condition.path) == 1 else ():
        if not isinstance(value, str):
            message = f"{option}: every value of format {table.format.name} is a text, unlike {value!r}"
            yield message, f"Write the text that records contain, for example {str(value).lower()!r}."


def _path_problems(form: Format, place: str, path: tuple[str, ...]) -> Iterator[Problem]:
    names = form.field_names
    if names is not None and path[0] not in names:
        hint = spelling_hint(path[0], names)
        message = f"{place} reads the field {path[0]}, which format {form.name} does not have"
        yield message, f"{hint}Name one of its fields: {', '.join(names)}."


def reference_format_problems(reference: Reference) -> Iterator[Problem]:
    """What is wrong with the format of the lines of a reference."""
    form = reference.format
    yield from format_problems(form)
    if form.framed or form.needs_schemas or form.has_changes:
        message = f"format {form.name} needs a registry or a connector, which write no files"
        yield message, "Declare the format of the lines, such as Json() or Csv(...)."
    for column in reference.columns:
        for path in filter(None, (column.field.names, column.field.former)):
            yield from _path_problems(form, f"column {column.name}", path)
            if form.is_text and len(path) > 1:
                message = f"column {column.name} reads the path {'.'.join(path)}, but format {form.name} has only texts"
                yield message, "Name one field."
