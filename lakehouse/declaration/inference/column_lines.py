"""Columns as a person writes them in a declaration file."""

from collections.abc import Sequence

from lakehouse.declaration.columns import Column, Time
from lakehouse.decoding.formats.shown_options import quote
from lakehouse.decoding.record_parts import ParentField, RecordHeader, RecordKey


def column_line(column: Column) -> str:
    """The expression for a proposed column."""
    arguments = [quote(column.name), quote(column.type), "doc=" + quote(column.doc)]
    arguments += ["required=True"] if column.required else []
    arguments += [f"source={text}"] if (text := _source(column)) else []
    arguments += [f"written={_written(column)}"] if column.written else []
    arguments += [f"null_values=[{', '.join(map(quote, column.null_values))}]"] if column.null_values else []
    arguments += [f"{option}=True" for option in ("keep", "null_erases") if getattr(column, option)]
    return f"Column({', '.join(arguments)})"


def _written(column: Column) -> str:
    """The expression for how records write the values of a column."""
    form = quote(column.form) if isinstance(column.form, str) else repr(column.form)
    if not isinstance(column.written, Time):
        return form
    options = [f"pattern={quote(column.time.pattern)}"] if column.time.pattern else []
    options += [f"epoch={quote(column.time.epoch)}"] if column.time.epoch else []
    return f"Time({', '.join([*options, *([f'written={form}'] if column.form else [])])})"


def _source(column: Column) -> str:
    """The expression for the source of a column; empty if it is the field with the column's name."""
    if isinstance(column.source, RecordHeader):
        return f"RecordHeader({quote(column.source.name)})"
    if isinstance(column.source, RecordKey):
        written = [] if column.source == RecordKey() else [quote(column.source.written)]
        path = [source_text(column.source.names)] if column.source.names else []
        return f"RecordKey({', '.join([*written, *path])})"
    if isinstance(column.source, ParentField):
        return f"ParentField({source_text(column.source.path)})"
    names = column.field.names
    return source_text(names) if names != (column.name,) else ""


def source_text(names: Sequence[str]) -> str:
    """The expression for the name of a field, or for the path to it."""
    return quote(names[0]) if len(names) == 1 else f"({', '.join(map(quote, names))})"
