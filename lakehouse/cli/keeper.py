"""The engine as a service of ``up``: started, reported as ready when it answers, restarted if it ends."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import SetupError
from lakehouse.local.java import OUT_OF_MEMORY
from lakehouse.spark.engine import EngineProcess, TakenError, engine_folder, read_address

if TYPE_CHECKING:
    from lakehouse.settings import Settings

_MEMORY_ADVICE = " (its memory was full: raise LAKEHOUSE_SPARK_DRIVER_MEMORY)"
_MAX_RESTARTS, _RESTART_SECONDS = 5, 3600.0  # at most so many restarts within so many seconds
_LOCK_WAIT = 0.3  # seconds: a process that checks for a running engine holds its lock for a moment


class EngineKeeper:
    """Keeps the engine of a home running; an engine that ends too often is not restarted for a while.

    Without an engine, commands and runs start their own Spark: so the end of the engine does not end ``up``.
    """

    exit_code: int | None = None

    def __init__(self, settings: "Settings", log_line: Callable[[str], None]) -> None:
        from lakehouse.spark.sessions import engine_conf, fingerprint

        self._settings, self._log_line = settings, log_line
        self._engine = EngineProcess(settings, engine_conf(settings), fingerprint(settings))
        self._is_reported = True
        self._is_waiting = self._is_paused = False
        self._end_times: list[float] = []

    def start(self) -> Path:
        """Start the engine, which does not answer yet; return its log.

        If the home has a Spark already, that is logged, and ``poll`` tries again. Raises the other errors of
        ``EngineProcess``.
        """
        self._begin(TakenError)
        return self._engine.log

    def _begin(self, retried_error: type[SetupError]) -> None:
        try:
            self._engine.start(patience=_LOCK_WAIT)
        except retried_error as error:
            if not self._is_waiting:
                self._log_line(f"not started yet: {error.what}. It starts when that has ended.")
            self._is_waiting = True
            return
        self._is_waiting = self._is_reported = False

    def stop(self) -> None:
        """Stop the engine. A second call does nothing."""
        self._engine.stop()

    def poll(self) -> None:
        """Log once that the engine answers; if it has ended, restart it, but not too often."""
        address = None if self._is_reported else read_address(engine_folder(self._settings))
        if address:
            self._is_reported = True
            self._log_line(f"ready at {address}")
        code = self._engine.exit_code
        if code is not None:
            self._restart(code)
        elif self._is_waiting:
            self._begin(SetupError)

    def _restart(self, code: int) -> None:
        now = time.monotonic()
        self._end_times = [end_time for end_time in self._end_times if now - end_time < _RESTART_SECONDS]
        advice = _MEMORY_ADVICE if code == OUT_OF_MEMORY else ""
        event = f"ended with code {code}{advice}, number {len(self._end_times) + 1} within an hour"
        if len(self._end_times) >= _MAX_RESTARTS:
            if not self._is_paused:
                self._log_line(f"{event}; not restarted for some time, commands and runs start their own Spark")
            self._is_paused = True
            return
        self._is_paused = False
        self._end_times.append(now)
        self._log_line(f"{event}; restarting")
        self._begin(SetupError)
