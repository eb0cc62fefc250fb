"""The engine as a service of ``up``: started, told when it answers, started again where it ends."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import SetupError
from lakehouse.local.engine import EngineProcess, OwnSparkError, engine_folder, read_address
from lakehouse.local.process import Child

if TYPE_CHECKING:
    from lakehouse.settings import Settings

_OFTEN, _SPAN = 5, 3600.0  # so many starts in so many seconds are made good
_SHORT = 0.3  # seconds: whoever looks whether an engine lives holds its lock for a moment
_PROBE = "from lakehouse.spark import main; main()"


class EngineKeeper:
    """Keeps the engine of a home until it is stopped, or has ended too often."""

    def __init__(self, settings: "Settings", tell: Callable[[str], None]) -> None:
        from lakehouse.spark import engine_conf, fingerprint

        self._settings, self._tell = settings, tell
        self._engine = EngineProcess(settings, engine_conf(settings), fingerprint(settings))
        self._probe: Child | None = None
        self._restarts: list[float] = []
        self._waits = False
        self.exit_code: int | None = None

    def start(self) -> Path:
        """Start the engine, and let a process of its own wait until it answers; return its log.

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
        self._waits = False
        self._ask()

    def stop(self) -> None:
        """Stop the engine. A second call does nothing."""
        for each in (self._probe, self._engine):
            if each is not None:
                each.stop()

    def look(self) -> None:
        """Tell that the engine answers; where it has ended, start it again, or note for good how it ended."""
        if self._probe is not None and self._probe.exit_code is not None:
            self._told(self._probe.exit_code)
        code = self._engine.exit_code
        if code is None and self._waits:
            self._begin()
        elif code is not None and self.exit_code is None:
            self._again(code)

    def _told(self, code: int) -> None:
        self._probe = None
        address = read_address(engine_folder(self._settings))
        if code == 0 and address:
            self._tell(f"ready at 127.0.0.1:{address.port}")

    def _again(self, code: int) -> None:
        now = time.monotonic()
        self._restarts = [moment for moment in self._restarts if now - moment < _SPAN]
        if len(self._restarts) >= _OFTEN:
            self.exit_code = code
            return
        self._end_probe()  # without an engine it would start a Spark of its own, and keep the engine from starting
        try:
            self._engine.start(patience=_SHORT)
        except SetupError as error:
            if not self._waits:
                self._tell(f"ended with code {code}. {error}")
            self._waits = True
            return
        self._waits = False
        self._restarts.append(now)
        self._tell(f"ended with code {code}; started again, {len(self._restarts)} of {_OFTEN} times in an hour")
        self._ask()

    def _end_probe(self) -> None:
        if self._probe is not None:
            self._probe.stop()
            self._probe = None

    def _ask(self) -> None:
        log = self._settings.make_folder("logs") / "engine-probe.log"
        self._probe = Child([sys.executable, "-c", _PROBE], log)
