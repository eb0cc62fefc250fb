"""A time limit for calls to a program that may not respond; each runs on its own thread, so signals still arrive."""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_time(ask: Callable[[], T], limit: float | None = None) -> T:
    """Return the result of a call, or raise its error; ``None`` means that the call limits itself.

    Raises ``TimeoutError`` after ``limit`` seconds in total. After a timeout or a signal the thread is left behind; it
    ends with the process.
    """
    outcomes: Queue[tuple[T, None] | tuple[None, BaseException]] = Queue()

    def call() -> None:
        try:
            outcomes.put((ask(), None))
        except BaseException as error:
            outcomes.put((None, error))

    Thread(target=call, daemon=True).start()
    timeout = TimeoutError(f"no complete answer within {limit or 0:.0f} seconds")
    outcome: tuple[T, None] | tuple[None, BaseException] = (None, timeout)
    with suppress(Empty):
        outcome = outcomes.get(timeout=limit)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]
