"""Columns as a person writes them in a declaration file."""

from collections.abc import Sequence

from lakehouse.declaration.vocabulary import Column

_TEXT_OPTIONS = ("pattern", "epoch", "written")


def column_line(column: Column) -> str:
    """The expression for a proposed column."""
    arguments = [quoted(column.name), quoted(column.type), "doc=" + quoted(column.doc)]
    arguments += ["required=True"] if column.required else []
    names = column.field.names
    arguments += [f"source={source_text(names)}"] if names != (column.name,) else []
    arguments += [f"{option}={quoted(value)}" for option in _TEXT_OPTIONS if (value := getattr(column, option))]
    arguments += [f"{option}=True" for option in ("keep", "null_erases") if getattr(column, option)]
    return f"Column({', '.join(arguments)})"


def source_text(names: Sequence[str]) -> str:
    """The expression for the name of a field, or for the path to it."""
    return quoted(names[0]) if len(names) == 1 else f"({', '.join(map(quoted, names))})"


def quoted(text: str) -> str:
    """A Python string literal, in double quotes if that needs no escapes."""
    literal = repr(text)
    can_double = literal[0] == "'" and '"' not in literal and "\\'" not in literal
    return f'"{literal[1:-1]}"' if can_double else literal
