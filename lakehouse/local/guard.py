"""Run a command that must not outlive whoever started it: ``python -m lakehouse.local.guard COMMAND...``.

The starter holds the other end of our standard input. When it ends, however it ends, the input ends
too, and the whole process group is stopped: the command and every process it started.
"""

import os
import signal
import subprocess
import sys
import threading
import time

_GRACE = 5.0  # seconds the command may take to stop by itself once its starter is gone


def main() -> None:
    """Run the command and end with its exit code."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave_it_to_the_command)
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_stop_at_end_of_input, args=(command,), daemon=True).start()
    code = command.wait()
    sys.exit(code if code >= 0 else 128 - code)


def _leave_it_to_the_command(_number: int, _frame: object) -> None:
    """Signals reach the whole group; the command answers them, and we end when it has."""


def _stop_at_end_of_input(command: "subprocess.Popen[bytes]") -> None:
    while sys.stdin.buffer.read(1):
        continue
    os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while command.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
