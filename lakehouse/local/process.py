"""Child processes that end when their parent ends, for any reason."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from lakehouse.errors import SetupError

# The shell becomes the program, so that signals and the exit code are those of the program. A guard process
# reads a pipe from the parent: the end of the parent, even by SIGKILL, closes the pipe. The program leads its
# own process group: its process id is not reused while the guard lives, and its own children end with it.
# A lock is passed as standard error, since this shell can name only descriptors of one digit: the program
# keeps it as descriptor 4, and the guard closes it.
_GUARDED = """
exec 3<&0 </dev/null
(trap '' TERM; read -r nothing <&3; kill -s TERM -- -$$; sleep 10; kill -s KILL -- -$$) >/dev/null 2>&1 4>&- &
exec "$@" 3<&-
"""
_KEEP_LOCK = "exec 4<&2 2>&1"


class Child:
    """A program started as a child, with its output appended to a log.

    It ends when this process ends, also on systems without a signal for that. Ctrl-C in the terminal does not reach
    it: this process stops it. ``lock`` is a descriptor of a locked file, which the program inherits: once the caller
    closes its own descriptor, the file stays locked until the program ends.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        lock: int | None = None,
    ) -> None:
        script = _GUARDED if lock is None else _KEEP_LOCK + _GUARDED
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

    def is_alive(self) -> bool:
        """Whether the program is running."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the program, negative for a signal; ``None`` while it runs."""
        return self._process.poll()

    def stop(self, patience: float = 8.0) -> None:
        """Send SIGTERM to the program and its own children, and SIGKILL to those that run ``patience`` seconds later.

        A second call does nothing.
        """
        if self._process.stdin is None or self._process.stdin.closed:
            return
        self._signal_group(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self.kill()

    def kill(self) -> None:
        """Kill the program and its process group at once."""
        self._signal_group(signal.SIGKILL)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


@contextmanager
def hold_lock(file: Path, limit: float) -> Iterator[None]:
    """Hold the lock of a file. The end of the process releases it too.

    Raises ``SetupError`` if another process keeps it for more than ``limit`` seconds, ``OSError`` if the disk refuses
    the lock.
    """
    lock = FileLock(file, timeout=limit)
    try:
        lock.acquire()
    except Timeout:
        message = f"Another process has kept this lock for {limit:.0f} seconds"
        action = "Check what that process waits for, or end it. Then run it again."
        raise SetupError(message, where=str(file), action=action) from None
    try:
        yield
    finally:
        lock.release()


class Tail:
    """New lines of a file. The file may not exist yet, or be replaced by a new one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._end = file.stat().st_size if file.exists() else 0

    def lines(self) -> list[str]:
        """Return the complete lines appended since the last call; an incomplete line waits for its end."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as log:
            self._end = self._end if self._end <= self._file.stat().st_size else 0
            log.seek(self._end)
            new_lines, line_end, _ = log.read().rpartition(b"\n")
        self._end += len(new_lines) + len(line_end)
        return new_lines.decode(errors="replace").splitlines()
