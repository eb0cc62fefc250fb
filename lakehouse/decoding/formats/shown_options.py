"""How a declaration writes the options of a format."""

from dataclasses import fields
from typing import Any


def show_options(form: Any) -> str:
    """The call that creates a format, with the options that differ from their defaults."""
    options = {option.name: (getattr(form, option.name), option.default) for option in fields(form) if option.init}
    texts = [f"{name}={_show(value)}" for name, (value, default) in options.items() if value != default]
    return f"{type(form).__name__}({', '.join(texts)})"


def quote(text: str) -> str:
    """A Python string literal, in double quotes if that needs no escapes."""
    literal = repr(text)
    can_double = literal[0] == "'" and '"' not in literal and "\\'" not in literal
    return f'"{literal[1:-1]}"' if can_double else literal


def _show(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    return f"[{', '.join(map(_show, value))}]" if isinstance(value, tuple) else repr(value)
