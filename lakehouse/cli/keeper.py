"""The engine as a service of ``up``: started, told when it answers, started again where it ends."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import SetupError
from lakehouse.local.java import OUT_OF_MEMORY
from lakehouse.spark.engine import EngineProcess, TakenError, engine_folder, read_address

if TYPE_CHECKING:
    from lakehouse.settings import Settings

_FULL = " (its memory was full: raise LAKEHOUSE_SPARK_DRIVER_MEMORY)"
_OFTEN, _SPAN = 5, 3600.0  # so many starts in so many seconds are made good
_SHORT = 0.3  # seconds: whoever looks whether an engine lives holds its lock for a moment


class EngineKeeper:
    """Keeps the engine of a home until it is stopped; one that ends too often is left alone for a while.

    What has no engine goes on, with a Spark of its own: so its end is never that of the stack.
    """

    exit_code: int | None = None

    def __init__(self, settings: "Settings", tell: Callable[[str], None]) -> None:
        from lakehouse.spark.sessions import engine_conf, fingerprint

        self._settings, self._tell = settings, tell
        self._engine = EngineProcess(settings, engine_conf(settings), fingerprint(settings))
        self._told = True
        self._waits = self._rests = False
        self._ends: list[float] = []

    def start(self) -> Path:
        """Start the engine, which does not answer yet; return its log.

        Where the home has a Spark already, that is told, and ``look`` tries again. Raises what else ``EngineProcess``
        raises.
        """
        self._begin(TakenError)
        return self._engine.log

    def _begin(self, passing: type[SetupError]) -> None:
        try:
            self._engine.start(patience=_SHORT)
        except passing as error:
            if not self._waits:
                self._tell(f"not started yet: {error.what}. It starts when that has ended.")
            self._waits = True
            return
        self._waits = self._told = False

    def stop(self) -> None:
        """Stop the engine. A second call does nothing."""
        self._engine.stop()

    def look(self) -> None:
        """Tell that the engine answers; where it has ended, start it again, though not too often."""
        address = None if self._told else read_address(engine_folder(self._settings))
        if address:
            self._told = True
            self._tell(f"ready at {address}")
        code = self._engine.exit_code
        if code is not None:
            self._again(code)
        elif self._waits:
            self._begin(SetupError)

    def _again(self, code: int) -> None:
        now = time.monotonic()
        self._ends = [moment for moment in self._ends if now - moment < _SPAN]
        why = _FULL if code == OUT_OF_MEMORY else ""
        many = f"ended with code {code}{why}, number {len(self._ends) + 1} within an hour"
        if len(self._ends) >= _OFTEN:
            if not self._rests:
                self._tell(f"{many}; left alone for some time, what runs now starts a Spark of its own")
            self._rests = True
            return
        self._rests = False
        self._ends.append(now)
        self._tell(f"{many}; it is started again")
        self._begin(SetupError)
