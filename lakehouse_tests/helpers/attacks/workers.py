"""Workers as the tests start, ask and outlive them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from lakehouse.errors import RegistryError
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.settings.registry_address import registry_url
from lakehouse_tests.helpers.attacks.worker import Job, Point, command

_END_SECONDS = 30.0


class Worker:
    """A process that merges, refreshes, maintains; it starts at once and is ready some seconds later."""

    def __init__(self, settings: Settings) -> None:
        self.log = settings.home_folder / "logs" / "workers.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        addresses = [bootstrap_servers(settings), _registry(settings)]
        program = ["-m", "lakehouse_tests.helpers.attacks.worker", str(settings.home_folder), *addresses]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, job: Job, point: Point | None = None) -> None:
        """Tell it what to do, without waiting for its end; the first time it waits until the worker is ready."""
        assert self._process.stdin
        self._process.stdin.write(command(job, point) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What it says next; nothing where it died."""
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("{"):
                told: dict[str, Any] = json.loads(line)
                return told
        return {}

    def wait_ready(self) -> None:
        assert "ready" in self.answer(), self.log.read_text(errors="replace")[-3000:]

    def do(self, job: Job) -> dict[str, Any]:
        self.start(job)
        return self.answer()

    def die(self, job: Job, point: Point) -> None:
        """Let it do something until it dies at a point; all of it has ended then, a JVM left alone included."""
        self.start(job, point)
        told = self.answer()
        assert told == {}, f"It lived on and said: {told}"
        assert self._process.wait() == -signal.SIGKILL
        self._await_group()

    def ended(self, limit: float) -> int:
        """How it ended, after so many seconds at most."""
        return self._process.wait(limit)

    def _await_group(self) -> None:
        deadline = time.monotonic() + _END_SECONDS
        with suppress(ProcessLookupError):
            while True:
                os.killpg(self._process.pid, 0)
                assert time.monotonic() < deadline, "Its JVM goes on without it"
                time.sleep(0.02)

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def _registry(settings: Settings) -> str:
    """Where the registry of the tests is, empty where none has run."""
    try:
        return registry_url(settings)
    except RegistryError:
        return ""


@contextmanager
def standby(settings: Settings) -> Iterator["Standby"]:
    """A worker that is always one ahead: the next starts while the last one's deed is looked at."""
    ready = Standby(settings)
    try:
        yield ready
    finally:
        ready.worker.stop()


class Standby:
    """Gives a worker that has started already, and starts the next."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.worker = Worker(settings)

    @contextmanager
    def take(self) -> Iterator[Worker]:
        """A worker to lose."""
        worker = self.worker
        worker.wait_ready()
        try:
            yield worker
        finally:
            worker.stop()
            self.worker = Worker(self._settings)
