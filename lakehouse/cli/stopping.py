"""The end of a command: Ctrl-C stops what it started, and a command that uses Spark ends within ten seconds.

However a command ends, no row is lost or duplicated: a table stays at its last whole commit. The next writer of a table
waits for what a Java process or an engine may still write.
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
_REPEAT_DELAY = 0.05
_exit_timers: list[Timer] = []  # end the process if Spark does not stop in time


@dataclass
class _StopState:
    """Whether Spark is in use and no signal has come yet, and whether a signal has come.

    Not an ``Event``: that takes a lock, and a signal that arrives meanwhile would wait for the lock forever.
    """

    uses_spark: bool = False
    is_signaled: bool = False


_STATE = _StopState()


def interrupt(_number: int, _frame: object) -> NoReturn:
    """End as Ctrl-C does, so that what was started is stopped; if Spark prevents that, a timer ends the process."""
    _STATE.is_signaled = True
    if _STATE.uses_spark:
        _STATE.uses_spark = False
        timer = Timer(_LIMIT, _abandon_spark)
        timer.daemon = True
        _exit_timers.append(timer)
        timer.start()
        _break_connection()
    raise KeyboardInterrupt


def interrupt_again(unraisable: "UnraisableHookArgs") -> None:
    """Repeat an interrupt that Python lost, as in a destructor; other errors of destructors are not shown.

    A thread repeats it a moment later: at once, it would break off this function and be lost too.
    """
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            Timer(_REPEAT_DELAY, signal.pthread_kill, [get_ident(), signal.SIGINT]).start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def end_process(code: int) -> NoReturn:
    """End the process; after a signal, do not wait for threads of libraries: one may wait for a silent server."""
    if not _STATE.is_signaled:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


@contextmanager
def stops_soon() -> Iterator[None]:
    """A signal during the body ends the process within seconds, even if Spark does not answer."""
    _STATE.uses_spark = True
    try:
        yield
    finally:
        _STATE.uses_spark = False
        while _exit_timers:  # Spark has stopped; everything else has its own time to stop
            _exit_timers.pop().cancel()


def _break_connection() -> None:
    with suppress(Exception):
        if "pyspark" in sys.modules:
            from lakehouse.spark.own_spark import abort_java_call

            abort_java_call()


def _abandon_spark() -> NoReturn:
    from lakehouse.cli.output import print_notice
    from lakehouse.spark.own_spark import end_java

    with suppress(Exception):
        print_notice("Spark does not stop and is abandoned. The next merge includes what was not committed.")
        end_java(0.0)
    os._exit(INTERRUPTED)
