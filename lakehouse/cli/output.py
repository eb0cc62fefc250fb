"""What a verb prints: results on standard output, progress on standard error."""

import csv
import json
import sys
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lakehouse.errors import printable

_PIPED_WIDTH = 200  # columns: a table that is piped into a file or another command is not cut at 80

_SMALL = 0.001  # below it, six places would hide a number


def results() -> Console:
    """Standard output. What stands in brackets or between colons is text, not markup."""
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def progress() -> Console:
    """Standard error: for people who wait, never for scripts."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Print a value as JSON: times in ISO 8601, decimals as text (exact), bytes in base64.

    Numbers that JSON does not have are text: NaN, Infinity, -Infinity.
    """
    from pydantic_core import to_jsonable_python

    typer.echo(json.dumps(to_jsonable_python(_in_text(value)), indent=2, allow_nan=False))


def _in_text(value: Any) -> Any:
    """The value with what pydantic would write otherwise as text: bytes, and numbers that JSON does not have."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, float) and not isfinite(value):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return {_in_text(key): _in_text(each) for key, each in value.items()}
    return [_in_text(each) for each in value] if isinstance(value, list | tuple | set) else value


def say(text: str = "") -> None:
    """Print a line of the result."""
    results().print(printable(text), markup=False, soft_wrap=True)


def complain(text: str) -> None:
    """Print a sentence on standard error."""
    progress().print(printable(text), markup=False, soft_wrap=True)


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV under their column names; NULL is empty, what holds others is JSON."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if value is None else in_words(value) for value in row] for row in rows)


def counted(number: int, thing: str) -> str:
    """A number of things in words: 1 row, 2 rows."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None, *, exact: bool = False
) -> None:
    """Print rows under their column names; numbers stand to the right, NULL is empty.

    ``exact`` shows numbers as they can be copied back: without separators, and not rounded.
    """
    if title:
        say(title)
    held = [tuple(row) for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):
        numbers = bool(held) and all(isinstance(row[place], int | float | Decimal | None) for row in held)
        table.add_column(printable(name), justify="right" if numbers else "left", overflow="fold")
    for row in held:
        table.add_row(*(shown(value, exact=exact) for value in row))
    results().print(table)


def shown(value: Any, *, exact: bool = False) -> str:
    """A value as people read it: whole numbers with separators, NULL as nothing, text that cannot mislead."""
    if value is None:
        return ""
    if exact and isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}" if 0 < abs(value) < _SMALL else str(round(value, 6))
    return printable(in_words(value))


def in_words(value: Any) -> str:
    """A value as text; one that holds others as JSON."""
    if not isinstance(value, list | tuple | dict):
        return str(value)
    from pydantic_core import to_jsonable_python

    return json.dumps(to_jsonable_python(_in_text(value)), ensure_ascii=False)
