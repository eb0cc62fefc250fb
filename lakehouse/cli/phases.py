"""What a verb does now and for how long: in a terminal beside its spinner or bar, elsewhere a line now and then.

Every part of the package logs what it begins, as ``INFO``, and what a person has to know at once, as ``WARNING``.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from lakehouse.cli.output import complain, progress

if TYPE_CHECKING:
    from rich.status import Status

_FIRST = 10.0  # seconds of one phase after which it is told where no terminal shows it; then after twice as long
_ROOT = logging.getLogger("lakehouse")


class Phase(logging.Handler):
    """The phase that began last, of those that are logged while this is installed."""

    def __init__(self) -> None:
        super().__init__()
        self.what, self._began = "", time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a phase, or tell a warning."""
        if record.levelno >= logging.WARNING:
            complain(record.getMessage())
        elif record.getMessage() != self.what:
            self.what, self._began = record.getMessage(), time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._began

    def __str__(self) -> str:
        """As a person reads it; empty where none has begun."""
        return f"{self.what}, {self.seconds:.0f} s" if self.what else ""


NOW = Phase()


@contextmanager
def phases() -> Iterator[None]:
    """Follow the phases of what is done here."""
    ended, level = Event(), _ROOT.level
    NOW.what = ""
    _ROOT.addHandler(NOW)
    _ROOT.setLevel(logging.INFO)
    if not sys.stderr.isatty():
        Thread(target=_tell, args=(ended,), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        _ROOT.removeHandler(NOW)
        _ROOT.setLevel(level)


def _tell(ended: Event) -> None:
    told, wait = "", _FIRST
    while not ended.wait(1.0):
        if NOW.what != told:
            told, wait = NOW.what, _FIRST
        if told and NOW.seconds >= wait:
            complain(str(NOW))
            wait *= 2


@contextmanager
def busy(what: str) -> "Iterator[Status]":
    """Say what is under way while it is; in a terminal only, and gone afterwards."""
    with progress().status(_Doing(what)) as status:
        yield status


class _Doing:
    """What is under way, as it reads at each look: with the phase it is in."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __rich__(self) -> str:
        phase = str(NOW)
        return f"{self._what} ... {phase and f'({phase})'}"


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar, in a terminal only; call what it gives with how many are done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = progress()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown_bar:
        task = shown_bar.add_task(what, total=total)
        yield lambda done: shown_bar.update(task, completed=done)
