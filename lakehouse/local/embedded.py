"""A server of a state folder that runs as a child process on loopback, under a lock, and dies with who started it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from filelock import FileLock, Timeout

from lakehouse.errors import LakehouseError
from lakehouse.local.process import Child
from lakehouse.settings import Settings

_START_SECONDS = 60.0


class Embedded(ABC):
    """A server of one state folder. It belongs to who starts it, under a lock, and dies with that process.

    Its data, ports and log lie in its folder and outlive it: the next start goes on with them.
    """

    name: ClassVar[str]
    error: ClassVar[type[LakehouseError]]

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._lock = FileLock(folder / "lock", thread_local=False)
        self._child: Child | None = None

    @property
    @abstractmethod
    def log(self) -> Path:
        """The file that holds what the server says."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where clients find it; that may change at a start. Raises ``error`` before the first."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Prepare its data and ports, and return what runs it in front."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it answers where it listened last."""

    @abstractmethod
    def _last_error(self) -> str:
        """The last line of the log that names an error; empty where none does."""

    def _settle(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what is to be done once it answers."""

    @property
    def pid(self) -> int | None:
        """Number of the server's process; ``None`` where this object has started none."""
        return self._child.pid if self._child else None

    @property
    def exit_code(self) -> int | None:
        """How the server's process ended; ``None`` while it runs, or where this object has none."""
        return self._child.exit_code if self._child else None

    def alive(self) -> bool:
        """Whether the server that this object started runs and answers."""
        return self._child is not None and self._child.alive() and self._answers()

    def start(self) -> None:
        """Start the server and return when it answers. One that was stopped or killed goes on with its data.

        Remembered ports are used again; where another program has taken one, they are drawn anew.
        Raises ``error`` where another process runs the server of this home or where it does not start,
        ``SetupError`` where Java or jars are missing.
        """
        self.stop()
        if not self._claim():
            fact = f"Another process already runs the {self.name} of this home"
            raise self.error(fact, where=str(self._folder), action="Use that one, or stop it first.")
        self._launch()

    def start_or_join(self) -> bool:
        """Start the server, or wait until the one that another process runs answers; whether it was started.

        Raises what ``start`` raises, and ``error`` where the other one does not answer.
        """
        if not wait(lambda: self._claim() or self._answers(), _START_SECONDS):
            fact = f"The {self.name} that another process runs for this home does not answer"
            raise self.error(fact, where=str(self.log), action="Stop that process and try again.")
        if not self._lock.is_locked:
            return False
        self._launch()
        return True

    def stop(self) -> None:
        """Stop the server, within 10 seconds, and keep its data. A second call does nothing."""
        if self._child is not None:
            self._child.stop()
            self._child = None
        self._lock.release()

    @contextmanager
    def running(self) -> Iterator[str]:
        """Yield its address; where no process of this home runs it, it is started, and stopped afterwards."""
        started = self.start_or_join()
        try:
            yield self.address
        finally:
            if started:
                self.stop()

    def _claim(self) -> bool:
        self._settings.claim_folder(self._folder.name)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        return True

    def _launch(self) -> None:
        try:
            self._child = Child(self._command(), self.log)
            self._require_ready(self._child)
            self._settle()
        except BaseException:
            self.stop()
            raise

    def _require_ready(self, child: Child) -> None:
        wait(lambda: self._answers() or not child.alive(), _START_SECONDS)
        if not child.alive():
            raise self._failed(f"The {self.name} ended while it started, with exit code {child.exit_code}")
        if not self._answers():
            raise self._failed(f"The {self.name} did not answer within {_START_SECONDS:.0f} seconds")

    def _failed(self, fact: str) -> LakehouseError:
        cause = self._last_error()
        action = f"Its log says: {cause[:300]}" if cause else "Its log names no cause."
        return self.error(fact, where=str(self.log), action=action)


def wait(condition: Callable[[], bool], limit: float) -> bool:
    """Wait for a condition for so many seconds; whether it came true."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
