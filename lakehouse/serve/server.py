"""Listens on an address, and answers until the process ends."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lakehouse.discovery import find_tables
from lakehouse.errors import SetupError
from lakehouse.serve.app import create_app
from lakehouse.serve.database import Database
from lakehouse.serve.gate import MAX_TARGET
from lakehouse.serve.serving import Serving
from lakehouse.settings import Settings

_HEAD_SECONDS = 10.0


@dataclass(frozen=True)
class Limits:
    """The most seconds of a query, and the most bytes of a page."""

    seconds: float
    page_bytes: int


def serve(settings: Settings, host: str, port: int, limits: Limits, announce: Callable[[str], None]) -> None:
    """Answer requests until a signal ends the process; ``announce`` gets the address when it answers.

    Port 0 is any free port. Raises ``SetupError`` if the address cannot be used, and the errors of the declarations.
    Writes nothing.
    """
    find_tables(settings)
    with _listen(host, port) as listener:
        app = create_app(Serving(settings, Database.open(settings, limits.seconds, limits.page_bytes)))
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=TimedProtocol,  # with h11: the other parser has no limit of the size
                h11_max_incomplete_event_size=2 * MAX_TARGET,
                ws="none",
                lifespan="off",
                log_level="error",
                access_log=False,
                server_header=False,
            )
        )
        # on its own thread: a signal then ends the process at once, also during a query
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        name = f"[{host}]" if ":" in host else host
        announce(f"http://{name}:{listener.getsockname()[1]}/v1")
        thread.join()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        action = f"Choose another one: lakehouse serve --port {port + 1}"
        raise SetupError(f"Port {port} of {host} cannot be used: {error.strerror}", action=action) from None


class TimedProtocol(H11Protocol):
    """Closes a connection that does not send the whole head of a request in time: half a head would hold it forever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Read what has arrived; a head that is not complete has to be so in time."""
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._cancel_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(_HEAD_SECONDS, self._close)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self, *_: Any) -> None:
        if self.conn.their_state is h11.IDLE:
            self.transport.close()
