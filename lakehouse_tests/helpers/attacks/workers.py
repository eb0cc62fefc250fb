"""Start workers, give them jobs and wait for their death."""

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
from lakehouse.settings.addresses import bootstrap_servers, registry_url
from lakehouse_tests.helpers.attacks.worker import Job, Point, command

_END_SECONDS = 30.0


class Worker:
    """A process that merges, refreshes and maintains. It starts immediately and is ready some seconds later."""

    def __init__(self, settings: Settings) -> None:
        self.log = settings.home_folder / "logs" / "workers.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        addresses = [bootstrap_servers(settings), _registry(settings)]
        arguments = ["-m", "lakehouse_tests.helpers.attacks.worker", str(settings.home_folder), *addresses]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
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
        """Start a job without waiting for its end; the worker begins when it is ready."""
        assert self._process.stdin
        self._process.stdin.write(command(job, point) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return its next answer, or an empty one if it died."""
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        return {}

    def wait_ready(self) -> None:
        assert "ready" in self.answer(), self.log.read_text(errors="replace")[-3000:]

    def do(self, job: Job) -> dict[str, Any]:
        self.start(job)
        return self.answer()

    def die(self, job: Job, point: Point) -> None:
        """Run a job until the worker dies at a point; wait until its process group, including the JVM, has ended."""
        self.start(job, point)
        answer = self.answer()
        assert answer == {}, f"The worker did not die; its answer is {answer}"
        assert self._process.wait() == -signal.SIGKILL
        self._await_group()

    def wait_for_end(self, limit: float) -> int:
        """Return its exit code; wait at most ``limit`` seconds."""
        return self._process.wait(limit)

    def _await_group(self) -> None:
        deadline = time.monotonic() + _END_SECONDS
        with suppress(ProcessLookupError):
            while True:
                os.killpg(self._process.pid, 0)
                assert time.monotonic() < deadline, "The JVM of the worker is still running"
                time.sleep(0.02)

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def _registry(settings: Settings) -> str:
    """Return the address of the registry of the tests, or an empty string if none has run."""
    try:
        return registry_url(settings)
    except RegistryError:
        return ""


@contextmanager
def standby(settings: Settings) -> Iterator["Standby"]:
    """Provide workers that have already started: the next one starts while a test checks the last one."""
    workers = Standby(settings)
    try:
        yield workers
    finally:
        workers.worker.stop()


class Standby:
    """Hands out a worker that has already started, and starts the next one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.worker = Worker(settings)

    @contextmanager
    def take(self) -> Iterator[Worker]:
        """Yield a worker that may die."""
        worker = self.worker
        worker.wait_ready()
        try:
            yield worker
        finally:
            worker.stop()
            self.worker = Worker(self._settings)
