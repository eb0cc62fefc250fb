"""What a command prints: results on standard output; on standard error what it does now, and for how long.

The package logs the start of each phase as ``INFO``, and what users need to know at once as ``WARNING``.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from operator import itemgetter
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lakehouse.errors import printable
from lakehouse.exports.row_texts import json_ready, value_text

if TYPE_CHECKING:
    from rich.status import Status

    from lakehouse.ingest.outcomes import Outcome

_PIPED_WIDTH = 200  # columns: a table piped into a file or another command is not cut at 80

_MAX_PARTITIONS = 20  # of a topic, in one table
_SMALL = 0.001  # below it, rounding to six places would lose the number
_FIRST_NOTICE = 10.0  # seconds of a phase after which it is printed without a terminal; doubled after each notice
_ROOT = logging.getLogger("lakehouse")
_RECENT = 3  # batches that count for the pace: the first batches of a process are slow


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
    ordered_rows = sorted(all_rows, key=lambda row: row[-1] if isinstance(row[-1], int) else -1, reverse=True)
    is_short = len(all_rows) <= _MAX_PARTITIONS
    greatest_rows = sorted(ordered_rows[:_MAX_PARTITIONS], key=itemgetter(0))
    print_table(columns, all_rows if is_short else greatest_rows, title)
    if not is_short:
        print_line(f"These are {_MAX_PARTITIONS} of {len(all_rows):,} partitions, with the greatest {columns[-1]}.")


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


class Phase(logging.Handler):
    """The newest phase that was logged while this handler is installed."""

    def __init__(self) -> None:
        super().__init__()
        self.description, self._start = "", time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning, or start a phase."""
        if record.levelno >= logging.WARNING:
            print_notice(record.getMessage())
        elif record.getMessage() != self.description:
            self.description, self._start = record.getMessage(), time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the phase has lasted."""
        return time.monotonic() - self._start

    def __str__(self) -> str:
        """The phase and its duration; empty before the first phase."""
        return f"{self.description}, {self.seconds:.0f} s" if self.description else ""


CURRENT_PHASE = Phase()


@contextmanager
def track_phases() -> Iterator[None]:
    """Follow the phases that the body logs."""
    stop_event, level = Event(), _ROOT.level
    CURRENT_PHASE.description = ""
    _ROOT.addHandler(CURRENT_PHASE)
    _ROOT.setLevel(logging.INFO)
    if not sys.stderr.isatty():
        Thread(target=_print_phases, args=(stop_event,), daemon=True).start()
    try:
        yield
    finally:
        stop_event.set()
        _ROOT.removeHandler(CURRENT_PHASE)
        _ROOT.setLevel(level)


def _print_phases(stop_event: Event) -> None:
    description, wait = "", _FIRST_NOTICE
    while not stop_event.wait(1.0):
        if CURRENT_PHASE.description != description:
            description, wait = CURRENT_PHASE.description, _FIRST_NOTICE
        if description and CURRENT_PHASE.seconds >= wait:
            print_notice(str(CURRENT_PHASE))
            wait *= 2


def spinner(activity: str, figures: object = "") -> "Status":
    """Show an activity while the body runs; in a terminal only, and removed at the end.

    ``figures`` are shown next to the phase, as the text that they have at each refresh.
    """
    return progress_console().status(_Activity(activity, figures))


class _Activity:
    """An activity with the current phase and its figures, rendered again at each refresh."""

    def __init__(self, description: str, figures: object) -> None:
        self._description, self._figures = description, figures

    def __rich__(self) -> str:
        details = "; ".join(filter(None, (str(CURRENT_PHASE), str(self._figures))))
        return f"{self._description} ... {details and f'({details})'}"


@contextmanager
def progress_bar(activity: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar, in a terminal only; call the yielded function with the number of completed items."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = progress_console()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as rich_progress:
        task = rich_progress.add_task(activity, total=total)
        yield lambda completed: rich_progress.update(task, completed=completed)


class Batch(NamedTuple):
    """What one batch did; its span of offsets is at least its records, because offsets may have holes."""

    span: int
    records: int
    seconds: float


@dataclass
class Pace:
    """How much of the backlog at the start is merged, in offsets or files, and how fast the latest batches were.

    Commits of base rows and of gaps do not count. ``total`` is 0 until the first batch is merged.
    """

    total: int = 0
    merged: int = 0
    recent_batches: list[Batch] = field(default_factory=list)
    noun: str = "offset"

    def add(self, outcome: "Outcome") -> None:
        """Count one more commit."""
        if outcome.plan is None:
            return
        self.total = self.total or outcome.lag_before
        from lakehouse.ledger.positions import source_words

        words = source_words(outcome.plan.source)
        span, self.noun = words.count(outcome.plan.span), words.position
        self.merged += span
        batch = Batch(span, outcome.entry.commit.read, outcome.seconds)
        self.recent_batches = [*self.recent_batches, batch][-_RECENT:]

    @property
    def time_left(self) -> timedelta:
        """How long the rest takes at the pace of the latest batches; to the second."""
        remaining, span = max(0, self.total - self.merged), sum(batch.span for batch in self.recent_batches)
        return timedelta(seconds=round(remaining * self._seconds / span)) if span else timedelta()

    def __str__(self) -> str:
        """The pace in words; empty before the first batch."""
        if not self.recent_batches:
            return ""
        rate = sum(batch.records for batch in self.recent_batches) / self._seconds if self._seconds else 0.0
        return f"{self.merged:,} of {self.total:,} {self.noun}s, {rate:,.0f} records a second, {self.time_left} left"

    @property
    def _seconds(self) -> float:
        return sum(batch.seconds for batch in self.recent_batches)


@contextmanager
def merge_progress() -> Iterator[Callable[["Outcome"], None]]:
    """A bar over all batches of a merge, in a terminal only; call the yielded function with each commit."""
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class PhaseColumn(ProgressColumn):
        def render(self, task: Task) -> Text:  # noqa: ARG002 - the phase belongs to the process
            return Text(str(CURRENT_PHASE))

    pace, console = Pace(), progress_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"), PhaseColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Merging", total=None, figures="")

        def show(outcome: "Outcome") -> None:
            pace.add(outcome)
            bar.update(task, total=pace.total or None, completed=pace.merged, figures=str(pace))

        yield show
