"""Columns as a person writes them in a declaration file."""

from collections.abc import Sequence

from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.formats.shown_options import quote

_TEXT_OPTIONS = ("pattern", "epoch", "written")


def column_line(column: Column) -> str:
    """The expression for a proposed column."""
    arguments = [quote(column.name), quote(column.type), "doc=" + quote(column.doc)]
    arguments += ["required=True"] if column.required else []
    names = column.field.names
    arguments += [f"source={source_text(names)}"] if names != (column.name,) else []
    arguments += [f"{option}={quote(value)}" for option in _TEXT_OPTIONS if (value := getattr(column, option))]
    arguments += [f"{option}=True" for option in ("keep", "null_erases") if getattr(column, option)]
    return f"Column({', '.join(arguments)})"


def source_text(names: Sequence[str]) -> str:
    """The expression for the name of a field, or for the path to it."""
    return quote(names[0]) if len(names) == 1 else f"({', '.join(map(quote, names))})"
