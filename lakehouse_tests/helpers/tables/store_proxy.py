"""A proxy in front of an object store: a test counts its requests and injects faults.

with running_proxy(store) as proxy:
    proxy.add_fault(Fault("lose answer", method="PUT", commits_only=True, every=2))
    ...
    proxy.requests()
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse_tests.helpers.tables import proxy_server
from lakehouse_tests.helpers.tables.azurite import AnyStore
from lakehouse_tests.helpers.tables.proxy_server import Fault


class StoreRequest(NamedTuple):
    """A request: ``status`` is that of the answer, 0 if there was none; ``fault`` is the kind of an injected fault."""

    method: str
    path: str
    query: str
    status: int
    is_conditional: bool
    fault: str


class StoreProxy:
    """A running proxy: what it counted, and the faults to inject."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        assert process.stdout
        self.port = int(process.stdout.readline())

    def requests(self) -> list[StoreRequest]:
        """Return the requests since the last reset, in their order."""
        return [StoreRequest(*request) for request in self._order("requests")]

    def reset(self) -> None:
        """Forget the requests so far."""
        self._order("reset")

    def add_fault(self, fault: Fault) -> None:
        self._order("add_fault", **asdict(fault))

    def clear_faults(self) -> None:
        self._order("clear_faults")

    def _order(self, name: str, **arguments: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def running_proxy(store: AnyStore, certificate: Path | None = None) -> Iterator[StoreProxy]:
    """Provide a proxy of the store, in whose environment deltalake, pyarrow and Spark connect to it, without TLS."""
    command = [sys.executable, proxy_server.__file__, str(store.port), *map(str, filter(None, [certificate]))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            proxy = StoreProxy(process)
            with store.environment(proxy.port):
                yield proxy
        finally:
            process.kill()
