"""The rules for ``invalid="null"``: what cannot be read becomes NULL, and another column keeps its text."""

from collections.abc import Iterator, Mapping

from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Field
from lakehouse.decoding.record_parts import VALUE

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
        elif not any(_keeps_text_of(other_column, fields, field) for other_column in table.record_columns):
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
    if column.name == table.version or (table.late and column.name == table.late.column):
        option = "version" if column.name == table.version else "late"
        message = f"column {column.name}: {option} needs its value, so invalid is not allowed"
        yield message, f"Remove invalid, or name another column in {option}."
    if table.base is not None:
        yield f"column {column.name}: base and invalid cannot be combined", _REMOVE_ONE


def _keeps_text_of(column: Column, fields: Mapping[str, Field], field: Field) -> bool:
    """Whether a column has every value of a field, or of what is around it, as text."""
    text_field = fields[column.name]
    is_whole = column.type == "STRING" and column.written in (None, "json")
    is_kept = not (column.invalid or column.null_values or column.default is not None or column.keep)
    is_around = field.names[: len(text_field.names)] == text_field.names
    is_around &= bool(text_field.former) == bool(field.former)
    is_around &= field.former[: len(text_field.former)] == text_field.former
    return is_whole and is_kept and is_around and (text_field.part, text_field.level) == (field.part, field.level)


def _source_of(column: Column) -> str:
    """The field of a column; of a path, the outermost field, because a text on the path may end it."""
    source = column.source or column.name
    outermost = source[0] if isinstance(source, tuple) else source
    return repr(outermost).replace("'", '"')
