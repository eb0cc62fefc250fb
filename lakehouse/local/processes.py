"""Child processes of one foreground command: started, listened to and stopped with all they started."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

OnLine = Callable[[str, str], None]
"""Called with the name of the child and a line of its output."""


class Child:
    """A named command in a process group of its own, which ends when we end, even by SIGKILL."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], on_line: OnLine) -> None:
        self.name = name
        self._on_line = on_line
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lakehouse.local.guard", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environment, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        for line in self._process.stdout:
            self._on_line(self.name, line.decode(errors="replace").rstrip())

    @property
    def exit_code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll()

    @property
    def gone(self) -> bool:
        """Whether neither the command nor any process it started in its group is left."""
        self._process.poll()
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command and every process it started; none is left: nothing happens."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return


def stop_all(children: Sequence[Child], limit: float) -> None:
    """Ask every child to stop; after ``limit`` seconds, kill what is left. A second call does nothing."""
    for child in children:
        child.signal(signal.SIGTERM)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline and not all(child.gone for child in children):
        time.sleep(0.05)
    for child in children:
        child.signal(signal.SIGKILL)
    while time.monotonic() < deadline + 1 and not all(child.gone for child in children):
        time.sleep(0.05)
