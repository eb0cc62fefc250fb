"""The rules for columns and conditions that a format restricts. Each rule yields what is wrong, and what to do."""

from collections.abc import Iterator, Mapping, Sequence

from lakehouse.declaration.columns import Column
from lakehouse.declaration.conditions import FieldIs
from lakehouse.declaration.names import spelling_hint
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Reference
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats import Format, format_problems
from lakehouse.decoding.record_parts import UNMAPPED, VALUE, Cut, ValueOrObject

_WHOLE_TYPES = ("INT", "BIGINT")
_CONNECT_DECIMALS = (
    "The schema of a record says how its decimals are written. Remove written. If the records have no schemas, declare"
    " Json(), and each column with a path, such as source=('payload', 'price')."
)
_NO_TEXT = (
    "Remove invalid: no other column could have the value, such as the number of an enum without a name. Add the name"
    " to the schema, then redrive."
)
_REMOVE_ONE = "Remove one of the two."


def format_column_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the columns of a table because of its format."""
    for column in table.record_columns:
        if column.field.place.part != VALUE:
            continue
        yield from _column_problems(column, table.format)
    yield from _base64_problems(table)
    yield from _unmapped_problems(table)
    for option, condition in table.all_conditions:
        if isinstance(condition, FieldIs):
            yield from _condition_problems(table, option, condition)


def _column_problems(column: Column, form: Format) -> Iterator[Problem]:
    for path in filter(None, (column.field.place.names, column.field.place.former)):
        yield from _path_problems(form, f"column {column.name}", path)
    if column.form == "connect" and (form.written or form).describes_decimals:
        message = f"column {column.name}: format {form.name} and written='connect' cannot be combined"
        yield message, _CONNECT_DECIMALS
    if form.has_whole_numbers and column.type not in _WHOLE_TYPES:
        message = f"column {column.name}: type {column.type} is not allowed in format {form.name}"
        yield message, "Its values are whole numbers. Declare BIGINT, or INT; the bytes of a double are others."


def _base64_problems(table: TableParts) -> Iterator[Problem]:
    path = table.format.json_options.base64_path or ()
    for column in table.record_columns:
        if isinstance(column.source, ValueOrObject) and column.source.whole_path[-1:] == path[-1:]:
            message = f"column {column.name}: the field of a ValueOrObject cannot be that of in_base64"
            yield message, "Name the field within the object as source, or remove in_base64."


def _unmapped_problems(table: TableParts) -> Iterator[Problem]:
    names = [column.name for column in table.record_columns if column.field.place.part == UNMAPPED]
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
        for path in filter(None, (column.field.place.names, column.field.place.former)):
            yield from _path_problems(form, f"column {column.name}", path)
            if form.is_text and len(path) > 1:
                message = f"column {column.name} reads the path {'.'.join(path)}, but format {form.name} has only texts"
                yield message, "Name one field."


def invalid_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the columns in which a value that cannot be read is NULL."""
    fields = {field.name: field for field in table.fields}
    for column in (column for column in table.record_columns if column.invalid):
        yield from _problems_with_null(table, column)
        field = fields[column.name]
        if field.place.part != VALUE:
            message = f"column {column.name}: invalid is only allowed for a field of a record's value"
            yield message, "Remove invalid, or read the column from a field."
        elif table.format.typed and column.type == "STRING":
            message = f"column {column.name}: invalid is not allowed for a text of format {table.format.name}"
            yield message, _NO_TEXT
        elif not _is_kept(table, fields, field):
            yield (
                f"column {column.name}: invalid requires another column with the text of the field",
                f'Add it, so that nothing is lost: Column("{column.name}_text", "STRING", source={_source_of(column)},'
                ' doc="..."), with written="json" if the field is not always a text.',
            )


def _problems_with_null(table: TableParts, column: Column) -> Iterator[Problem]:
    options = {"required": column.required, "default": column.default is not None, "keep": column.keep}
    for option, is_declared in options.items():
        if is_declared:
            yield f"column {column.name}: {option} and invalid cannot be combined", _REMOVE_ONE
    if column.name in table.version_sources or (table.late and column.name == table.late.column):
        option = "version" if column.name in table.version_sources else "late"
        message = f"column {column.name}: {option} needs its value, so invalid is not allowed"
        yield message, f"Remove invalid, or name another column in {option}."
    if table.base is not None:
        yield f"column {column.name}: base and invalid cannot be combined", _REMOVE_ONE


def _is_kept(table: TableParts, fields: Mapping[str, Field], field: Field) -> bool:
    """Whether another column has every value of a field, or of what is around it, as text.

    A column falls back to its former path if its own path is missing: only columns with one path do so for the same
    records.
    """
    texts = [fields[column.name] for column in table.record_columns if _keeps_text(column)]
    texts = [text for text in texts if (text.place.part, text.place.level) == (field.place.part, field.place.level)]
    if field.place.former:
        return any(
            text.place.names == field.place.names
            and text.place.former
            and _leads(text.place.former, field.place.former)
            for text in texts
        )
    has_same_source = any(
        (text.place.names, text.place.whole_depth) == (field.place.names, field.place.whole_depth) for text in texts
    )
    return has_same_source or any(
        _leads(text.place.names, field.place.names[: field.place.whole_depth or None]) for text in texts
    )


def _keeps_text(column: Column) -> bool:
    is_whole = column.type == "STRING" and column.form in (None, "json")
    is_whole = is_whole and not isinstance(column.source, Cut)
    return is_whole and not (column.invalid or column.null_values or column.default is not None or column.keep)


def _leads(outer_path: Sequence[str], path: Sequence[str]) -> bool:
    return path[: len(outer_path)] == outer_path


def _source_of(column: Column) -> str:
    """The source of the column that keeps the text: of a path, the outermost field, because a text on it may end it.

    With a former name, both are the same paths as those of the column.
    """
    source = column.source.source if isinstance(column.source, ValueOrObject | Cut) else column.source or column.name
    if column.formerly is None and isinstance(source, list | tuple):
        source = source[0]
    formerly = "" if column.formerly is None else f", formerly={column.formerly!r}"
    return f"{source!r}{formerly}".replace("'", '"')
