"""``lakehouse up`` as a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from lakehouse.local.embedded import draw_port
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.processes import started_by, still_running
from lakehouse_tests.helpers.waiting import wait_until


class Up:
    """One ``lakehouse up`` of a home, with the tables of a folder, else with those of all tests.

    ``outside`` is a folder without a project and without a declaration.
    """

    def __init__(
        self, home: Path, *services: str, declarations: Path | None = None, outside: Path | None = None
    ) -> None:
        self.port = draw_port()
        self.log = home / "up.log"
        home.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
        environment |= {"LAKEHOUSE_DECLARATIONS": str(declarations)} if declarations else {}
        environment |= {"LAKEHOUSE_DECLARATIONS": ""} if outside else {}
        command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "up", *services, "--port", str(self.port)],
                cwd=outside or ROOT,
                env={**environment, "LAKEHOUSE_HOME": str(home), "LAKEHOUSE_SPARK_DRIVER_MEMORY": "1g"},
                stdout=log,
                stderr=log,
            )

    def wait_for_log(self, text: str, limit: float = 90.0) -> bool:
        return wait_until(lambda: text in self.log.read_text() or self.process.poll() is not None, limit) and (
            text in self.log.read_text()
        )

    def stop(self, signal_number: signal.Signals = signal.SIGINT) -> tuple[float, dict[int, str]]:
        """Stop it; return the seconds that this took and the processes that are left."""
        processes = started_by(self.process.pid)
        start_time = time.monotonic()
        self.process.send_signal(signal_number)
        self.process.wait(timeout=30)
        seconds = time.monotonic() - start_time
        return seconds, still_running(processes)
