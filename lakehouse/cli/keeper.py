"""The engine as a service of ``up``: started, told when it answers, started again where it ends."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import SetupError
from lakehouse.local.engine import EngineProcess, OwnSparkError, engine_folder, read_address

if TYPE_CHECKING:
    from lakehouse.settings import Settings

_OFTEN, _SPAN = 5, 3600.0  # so many starts in so many seconds are made good
_SHORT = 0.3  # seconds: whoever looks whether an engine lives holds its lock for a moment


class EngineKeeper:
    """Keeps the engine of a home until it is stopped, or has ended too often."""

    def __init__(self, settings: "Settings", tell: Callable[[str], None]) -> None:
        from lakehouse.spark import engine_conf, fingerprint

        self._settings, self._tell = settings, tell
        self._engine = EngineProcess(settings, engine_conf(settings), fingerprint(settings))
        self._told = True
        self._restarts: list[float] = []
        self._waits = False
        self.exit_code: int | None = None

    def start(self) -> Path:
        """Start the engine, which does not answer yet; return its log.

        Where commands of the home use a Spark of their own, that is told, and ``look`` tries again. Raises what else
        ``EngineProcess`` raises.
        """
        self._begin()
        return self._engine.log

    def _begin(self) -> None:
        try:
            self._engine.start(patience=_SHORT)
        except OwnSparkError as error:
            if not self._waits:
                self._tell(f"not started yet: {error.what}. It starts when that has ended.")
            self._waits = True
            return
        self._waits = self._told = False

    def stop(self) -> None:
        """Stop the engine. A second call does nothing."""
        self._engine.stop()

    def look(self) -> None:
        """Tell that the engine answers; where it has ended, start it again, or note for good how it ended."""
        address = None if self._told else read_address(engine_folder(self._settings))
        if address:
            self._told = True
            self._tell(f"ready at 127.0.0.1:{address.port}")
        code = self._engine.exit_code
        if code is None and self._waits:
            self._begin()
        elif code is not None and self.exit_code is None:
            self._again(code)

    def _again(self, code: int) -> None:
        now = time.monotonic()
        self._restarts = [moment for moment in self._restarts if now - moment < _SPAN]
        if len(self._restarts) >= _OFTEN:
            self.exit_code = code
            return
        try:
            self._engine.start(patience=_SHORT)
        except SetupError as error:
            if not self._waits:
                self._tell(f"ended with code {code}. {error}")
            self._waits = True
            return
        self._waits = self._told = False
        self._restarts.append(now)
        self._tell(f"ended with code {code}; started again, {len(self._restarts)} of {_OFTEN} times in an hour")
