"""``lakehouse serve`` as a process of its own, and requests to it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

_PROGRAM = "from lakehouse.cli.main import main; main()"


@dataclass(frozen=True)
class ApiServer:
    """A running server: its process, and its address up to ``/v1``."""

    process: "subprocess.Popen[str]"
    address: str

    def request(self, path: str, method: str = "GET", **options: Any) -> requests.Response:
        """Send a request to a path below ``/v1``, or to a whole path."""
        url = f"{self.address}{path}" if not path.startswith("/v1") else self.address.removesuffix("/v1") + path
        return requests.request(method, url, timeout=60, **options)

    def read(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to a request, which must succeed."""
        response = self.request(path, params=parameters)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def problem(self, path: str, **options: Any) -> dict[str, Any]:
        """Return the problem that answers a request; its status is that of the response."""
        response = self.request(path, **options)
        assert response.headers["Content-Type"] == "application/problem+json", response.text
        problem: dict[str, Any] = response.json()
        assert problem["status"] == response.status_code
        assert problem["detail"] and problem["action"]
        return problem

    def stop(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Send a signal; return the exit code and the output."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@contextmanager
def api_server(home: Path, *options: str, **variables: str) -> Iterator[ApiServer]:
    """Serve the tables of a home on a free port."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
    environment |= {"LAKEHOUSE_HOME": str(home), "LAKEHOUSE_DECLARATIONS": "lakehouse.examples.tables", **variables}
    command = [sys.executable, "-c", _PROGRAM, "serve", "--port", "0", *options]
    with subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True) as process:
        try:
            assert process.stdout and process.stderr
            line = process.stdout.readline()
            match = re.search(r"http://\S+/v1", line)
            assert match, (line, process.poll())
            yield ApiServer(process, match[0])
        finally:
            process.kill()
