"""A receiver of alerts or events on loopback: an HTTP server that keeps what it accepts."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "t0ken-of-the-url"


class Receiver:
    """The alerts that a server accepted, in their order, and the number of requests to it.

    The server answers with ``status`` and keeps nothing if it is not 200 and the request contains ``refused_text``, as
    each one does by default. It answers no request while ``open_gate`` is clear.
    """

    def __init__(self) -> None:
        self.url = ""
        self.status, self.location, self.refused_text = 200, "", ""
        self.requests, self.bodies = 0, list[dict[str, Any]]()
        self.open_gate = threading.Event()
        self.open_gate.set()

    def take(self) -> list[dict[str, Any]]:
        """Return the alerts since the last call."""
        bodies, self.bodies = self.bodies, []
        return bodies

    def states(self) -> list[tuple[str, str]]:
        """Return the state and the subject of each alert since the last call."""
        return [(body["state"], body["subject"]) for body in self.take()]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver, whose URL contains ``SECRET``."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.requests += 1
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            receiver.open_gate.wait(60)
            status = receiver.status if receiver.refused_text in text else 200
            if status == 200:
                receiver.bodies.append(json.loads(text))
            self.send_response(status)
            if receiver.location:
                self.send_header("Location", receiver.location)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hooks/{SECRET}"
    try:
        yield receiver
    finally:
        receiver.open_gate.set()
        server.shutdown()
        server.server_close()
