"""Listens on an address, and answers until the process ends."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from threading import Thread
from typing import Any

import h11
import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from lakehouse.discovery import find_tables
from lakehouse.errors import LakehouseError, SetupError
from lakehouse.serve import models
from lakehouse.serve.database import Database
from lakehouse.serve.models import PROBLEM_TYPE, RequestError, problem_of, wrong_parameter
from lakehouse.serve.requests import MAX_TARGET, Gate, require_token
from lakehouse.serve.routes import router
from lakehouse.serve.snapshots import Serving, answer_without_version, existing_tables
from lakehouse.settings import Settings

_DOCUMENT = "/v1/openapi.json"
_SCHEMA_OF_PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    304: {"description": "The client has this answer: If-None-Match has its ETag."},
    **{
        status: {"description": description, "model": models.Problem, "content": {PROBLEM_TYPE: _SCHEMA_OF_PROBLEM}}
        for status, description in (("4XX", "The request cannot be answered."), ("5XX", "The server cannot answer."))
    },
}
_HEAD_SECONDS = 10.0


def create_app(serving: Serving) -> FastAPI:
    """Create the application for a server."""
    app = FastAPI(
        title="lakehouse",
        version=version("dagster-lakehouse"),
        summary="Delta tables over HTTP, read-only. Each answer names the version of the table that it is of.",
        openapi_url=_DOCUMENT,
        docs_url=None,  # its page would load scripts of another host
        redoc_url=None,
        redirect_slashes=False,
        responses=_RESPONSES,
    )
    app.state.serving = serving
    app.get("/v1/health", response_model=models.Health)(show_health)
    app.include_router(router, dependencies=[Depends(require_token)] if serving.token else [])
    app.add_middleware(Gate, only_local=serving.token is None)
    for error_type in (LakehouseError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(error_type, _explain)
    document = app.openapi()
    for path in document["paths"].values():
        for status in ("4XX", "5XX"):
            path["get"]["responses"][status]["content"].pop("application/json", None)
    return app


def show_health(request: Request) -> Response:
    """Show that the server answers, and reaches the tables. Needs no token."""
    existing_tables(Serving.of(request).settings)
    return answer_without_version(request, {"status": "ok"})


async def _explain(_: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        name, message = str(first["loc"][-1]), str(first["msg"]).replace("Input should", "it should")
        is_unknown = first["type"] == "extra_forbidden"
        what = f"Unknown parameter {name!r}" if is_unknown else f"The parameter {name} cannot be used: {message}"
        return problem_of(wrong_parameter(name, what, _SEE))
    if isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
        what = f"{status.description or status.phrase}"
        return problem_of(RequestError(status, what, where="path", action=_SEE), error.headers)
    if not isinstance(error, LakehouseError):
        what = f"Unexpected {type(error).__name__}"
        return problem_of(LakehouseError(what, action="The server has printed the traceback; report it with that."))
    is_unauthorized = isinstance(error, RequestError) and error.status is HTTPStatus.UNAUTHORIZED
    return problem_of(error, {"WWW-Authenticate": "Bearer"} if is_unauthorized else None)


_SEE = f"See {_DOCUMENT}."


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
