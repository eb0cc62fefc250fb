"""What a verb does now and for how long: in a terminal beside its spinner or bar, elsewhere a line now and then.

Every part of the package logs what it begins, as ``INFO``, and what a person has to know at once, as ``WARNING``.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from lakehouse.cli.output import complain

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
