"""Child processes that end with their parent, whatever ends it."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# The shell becomes the program, so that signals and the exit code are the program's own. Beside it, a
# guard reads the pipe that the parent holds: the end of the parent, even by SIGKILL, ends the pipe. The
# program leads a process group of its own, so that its number is not given away while the guard lives,
# and so that what the program starts ends with it. A lock comes in place of the output for errors, since
# this shell can name descriptors of one digit only: the program keeps it as number 4, and the guard does not.
_GUARDED = """
exec 3<&0 </dev/null
(trap '' TERM; read -r nothing <&3; kill -s TERM -- -$$; sleep 10; kill -s KILL -- -$$) >/dev/null 2>&1 4>&- &
exec "$@" 3<&-
"""
_HOLDING = "exec 4<&2 2>&1"


class Child:
    """A program started as a child, with its output appended to a log.

    It ends when this process ends, also on systems without a signal for that, and is not reached by a
    Ctrl-C in the terminal: whoever started it stops it. ``lock``, a descriptor of a locked file, is the program's
    from then on: when the caller has closed its own, the file is locked until the program has ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        lock: int | None = None,
    ) -> None:
        script = _GUARDED if lock is None else _HOLDING + _GUARDED
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", script, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output if lock is None else lock,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,
            )
        self.pid = self._process.pid

    def alive(self) -> bool:
        """Whether the program still runs."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How the program ended, negative for a signal; ``None`` while it runs."""
        return self._process.poll()

    def stop(self, patience: float = 8.0) -> None:
        """Ask the program and its own children to end, and kill what is left of them after ``patience`` seconds.

        A second call does nothing.
        """
        if self._process.stdin is None or self._process.stdin.closed:
            return
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self.kill()

    def kill(self) -> None:
        """End the program and all of its group at once."""
        self._signal(signal.SIGKILL)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
