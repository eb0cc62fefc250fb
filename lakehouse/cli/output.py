"""What a command prints: results on standard output, progress on standard error."""

import json
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lakehouse.errors import printable
from lakehouse.exports.row_texts import json_ready, value_text

_PIPED_WIDTH = 200  # columns: a table piped into a file or another command is not cut at 80

_MAX_PARTITIONS = 20  # of a topic, in one table
_SMALL = 0.001  # below it, rounding to six places would lose the number


def result_console() -> Console:
    """Standard output. Text in brackets or between colons is printed as text, not as markup."""
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def progress_console() -> Console:
    """Standard error: for people who wait, not for scripts."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Print a value as JSON: times in ISO 8601, decimals as text (exact), bytes in base64.

    Numbers that JSON does not have are text: NaN, Infinity, -Infinity.
    """
    from pydantic_core import to_jsonable_python

    typer.echo(json.dumps(to_jsonable_python(json_ready(value)), indent=2, allow_nan=False))


def print_line(text: str = "") -> None:
    """Print a line of the result."""
    result_console().print(printable(text), markup=False, soft_wrap=True)


def print_notice(text: str) -> None:
    """Print an error or a notice on standard error."""
    progress_console().print(printable(text), markup=False, soft_wrap=True)


def count_text(number: int, noun: str) -> str:
    """A number with its noun: 1 row, 2 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None, *, exact: bool = False
) -> None:
    """Print rows under their column names; numbers are aligned to the right, NULL is empty.

    ``exact`` prints numbers that can be copied back: without separators, and not rounded.
    """
    if title:
        print_line(title)
    all_rows = [tuple(row) for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        is_numeric = bool(all_rows) and all(isinstance(row[index], int | float | Decimal | None) for row in all_rows)
        table.add_column(printable(name), justify="right" if is_numeric else "left", overflow="fold")
    for row in all_rows:
        table.add_row(*(format_value(value, exact=exact) for value in row))
    result_console().print(table)


def print_partitions(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """Print a row for each partition of a topic, the partition first; of many, those with the greatest last value."""
    all_rows = list(rows)
    greatest_rows = sorted(all_rows, key=_last_number, reverse=True)[:_MAX_PARTITIONS]
    is_short = len(all_rows) <= _MAX_PARTITIONS
    print_table(columns, all_rows if is_short else sorted(greatest_rows, key=itemgetter(0)), title)
    if not is_short:
        print_line(f"These are {_MAX_PARTITIONS} of {len(all_rows):,} partitions, with the greatest {columns[-1]}.")


def _last_number(row: Sequence[Any]) -> float:
    return row[-1] if isinstance(row[-1], int) else -1


def format_value(value: Any, *, exact: bool = False) -> str:
    """A value for people: integers with separators, NULL as empty text, only printable characters."""
    if value is None:
        return ""
    if exact and isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}" if 0 < abs(value) < _SMALL else str(round(value, 6))
    return printable(value_text(value))
