"""The end of a verb: Ctrl-C stops what was started, and a verb that works with Spark ends within ten seconds.

Whatever it does then, no row is lost or doubled by an end: a table is at its last whole commit, and what a Java or an
engine may still write is waited for by the next writer of that table.
"""

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Timer, get_ident
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130
_LIMIT = 9.0  # seconds from the first signal
_MOMENT = 0.05
_ending: list[Timer] = []  # what ends the process where Spark does not stop in time


@dataclass
class _Stopping:
    """Whether Spark is in use and nobody has asked for the end yet, and whether anybody has asked.

    No ``Event``: that takes a lock, and a signal that comes while it is taken would wait for it for ever.
    """

    in_use: bool = False
    asked: bool = False


_STOPPING = _Stopping()


def interrupt(_number: int, _frame: object) -> NoReturn:
    """End as Ctrl-C does, so that what was started is stopped; where Spark keeps us from that, end all the same."""
    _STOPPING.asked = True
    if _STOPPING.in_use:
        _STOPPING.in_use = False
        timer = Timer(_LIMIT, _leave_spark)
        timer.daemon = True
        _ending.append(timer)
        timer.start()
        _break_talk()
    raise KeyboardInterrupt


def interrupt_again(lost: "UnraisableHookArgs") -> None:
    """Interrupt once more if Python lost an interrupt, as it does in a destructor; other errors there are not shown.

    A thread does it a moment later: at once, it would break off this function, and be lost as well.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            Timer(_MOMENT, signal.pthread_kill, [get_ident(), signal.SIGINT]).start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_process(code: int) -> NoReturn:
    """End the process; after a signal without a wait for threads of libraries: one may wait for a silent server."""
    if not _STOPPING.asked:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


@contextmanager
def stops_soon() -> Iterator[None]:
    """A signal that comes in here ends the process within seconds, also where Spark does not answer."""
    _STOPPING.in_use = True
    try:
        yield
    finally:
        _STOPPING.in_use = False
        while _ending:  # Spark has stopped; what else was started has its own time to end
            _ending.pop().cancel()


def _break_talk() -> None:
    with suppress(Exception):
        if "pyspark" in sys.modules:
            from lakehouse.spark.own_spark import break_talk

            break_talk()


def _leave_spark() -> NoReturn:
    from lakehouse.cli.output import complain
    from lakehouse.spark.own_spark import end_java

    with suppress(Exception):
        complain("Spark does not stop: it is left. What was not committed is merged the next time.")
        end_java(0.0)
    os._exit(INTERRUPTED)
