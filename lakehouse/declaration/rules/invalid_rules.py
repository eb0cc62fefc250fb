"""The rules for ``invalid="null"``: what cannot be read becomes NULL, and another column keeps its text."""

from collections.abc import Iterator, Mapping, Sequence

from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Field
from lakehouse.decoding.record_parts import VALUE, ValueOrObject

_NO_TEXT = (
    "Remove invalid: no other column could have the value, such as the number of an enum without a name. Add the name"
    " to the schema, then redrive."
)
_REMOVE_ONE = "Remove one of the two."


def invalid_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the columns in which a value that cannot be read is NULL."""
    fields = {field.name: field for field in table.fields}
    for column in (column for column in table.columns if column.invalid and column.sql is None):
        yield from _column_problems(table, column)
        field = fields[column.name]
        if field.part != VALUE:
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


def _column_problems(table: TableParts, column: Column) -> Iterator[Problem]:
    options = {"required": column.required, "default": column.default is not None, "keep": column.keep}
    for option, is_declared in options.items():
        if is_declared:
            yield f"column {column.name}: {option} and invalid cannot be combined", _REMOVE_ONE
    if column.name == table.version_column or (table.late and column.name == table.late.column):
        option = "version" if column.name == table.version_column else "late"
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
    texts = [text for text in texts if (text.part, text.level) == (field.part, field.level)]
    if field.former:
        return any(text.names == field.names and text.former and _leads(text.former, field.former) for text in texts)
    has_same_source = any((text.names, text.whole_depth) == (field.names, field.whole_depth) for text in texts)
    return has_same_source or any(_leads(text.names, field.names[: field.whole_depth or None]) for text in texts)


def _keeps_text(column: Column) -> bool:
    is_whole = column.type == "STRING" and column.written in (None, "json")
    return is_whole and not (column.invalid or column.null_values or column.default is not None or column.keep)


def _leads(outer_path: Sequence[str], path: Sequence[str]) -> bool:
    return path[: len(outer_path)] == outer_path


def _source_of(column: Column) -> str:
    """The source of the column that keeps the text: of a path, the outermost field, because a text on it may end it.

    With a former name, both are the same paths as those of the column.
    """
    source = column.source.source if isinstance(column.source, ValueOrObject) else column.source or column.name
    if column.formerly is None and isinstance(source, list | tuple):
        source = source[0]
    formerly = "" if column.formerly is None else f", formerly={column.formerly!r}"
    return f"{source!r}{formerly}".replace("'", '"')
