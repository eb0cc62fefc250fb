"""Listens on an address, and answers until the process ends."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

import uvicorn

from lakehouse.discovery import find_tables
from lakehouse.errors import SetupError
from lakehouse.serve.app import create_app
from lakehouse.serve.database import Database
from lakehouse.serve.gate import MAX_TARGET
from lakehouse.serve.protocol import TimedProtocol
from lakehouse.serve.serving import Serving
from lakehouse.settings import Settings


@dataclass(frozen=True)
class Limits:
    """The most seconds of a query, and the most bytes of a page."""

    seconds: float
    page_bytes: int


def serve(settings: Settings, host: str, port: int, limits: Limits, announce: Callable[[str], None]) -> None:
    """Answer requests until a signal ends the process; ``announce`` gets the address when it answers.

    Port 0 is any free port. Raises ``SetupError`` if the address cannot be
    used, and the errors of the declarations. Writes nothing.
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
