"""A question to a program that may be silent, on a thread of its own: the main one takes signals meanwhile."""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_time(ask: Callable[[], T], limit: float | None = None) -> T:
    """What a question gives, or the error that it raises; ``None``: it has a limit of its own.

    ``TimeoutError`` after so many seconds for all of it. The thread is left behind then, and where a signal ends the
    wait: it ends with its process.
    """
    told: Queue[tuple[T, None] | tuple[None, BaseException]] = Queue()

    def answer() -> None:
        try:
            told.put((ask(), None))
        except BaseException as error:
            told.put((None, error))

    Thread(target=answer, daemon=True).start()
    late = TimeoutError(f"no whole answer within {limit or 0:.0f} seconds")
    found: tuple[T, None] | tuple[None, BaseException] = (None, late)
    with suppress(Empty):
        found = told.get(timeout=limit)
    if found[1] is not None:
        raise found[1]
    return found[0]
