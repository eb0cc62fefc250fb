"""What a request must meet before it is read, and the parameters of each path that are not filters."""

import hmac
import re
from http import HTTPStatus
from ipaddress import ip_address
from typing import Annotated, Literal

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from lakehouse.serve.problems import RequestError, problem_of
from lakehouse.serve.snapshots import Serving

MAX_TARGET = 8_192  # bytes of path and query
_LOCAL_NAME = "localhost"
_HOST = re.compile(r"(?:\[(?P<address>[^]]*)\]|(?P<name>[^]:[]*))(?::[0-9]*)?")
_MAX_ROWS = 10_000
_GREATEST_VERSION = 2**53 - 1


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return host == _LOCAL_NAME or ip_address(host).is_loopback
    except ValueError:
        return False


class Gate:
    """Answers requests that are too large and, without a token, those for another host than this machine.

    A page of another site could otherwise read the tables: its name may be resolved to the loopback address.
    """

    def __init__(self, app: ASGIApp, *, only_local: bool) -> None:
        self._app = app
        self._only_local = only_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with the problem."""
        error = self._problem(Request(scope)) if scope["type"] == "http" else None
        await (problem_of(error) if error else self._app)(scope, receive, send)

    def _problem(self, request: Request) -> RequestError | None:
        if len(request.scope["raw_path"]) + len(request.scope["query_string"]) > MAX_TARGET:
            what = f"The address is longer than {MAX_TARGET:,} bytes"
            return RequestError(HTTPStatus.REQUEST_URI_TOO_LONG, what, action="Use fewer or shorter parameters.")
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            what = "The request has a body, but every request only reads"
            return RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, what, action="Send it without a body.")
        host = _host_of(request)
        if self._only_local and host is not None and not is_loopback(host):
            action = "Use 127.0.0.1 or localhost. For other names, set LAKEHOUSE_SERVE_TOKEN."
            what = f"Without a token, the tables are served to this machine only, and not as {host!r}"
            return RequestError(HTTPStatus.MISDIRECTED_REQUEST, what, where="header Host", action=action)
        return None


def _host_of(request: Request) -> str | None:
    """Return the host that a request names, ``None`` if it names none, as no browser does.

    The URL of Starlette has the address of the server in place of a header that names no host, such as x@localhost,
    and older releases also for names that browsers look up, such as a_b.example.
    """
    header = request.headers.get("host")
    match = _HOST.fullmatch(header) if header is not None else None
    return (match["address"] or match["name"] or "").lower() if match else header


_bearer = HTTPBearer(auto_error=False, description="The value of LAKEHOUSE_SERVE_TOKEN.")


async def require_token(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> None:
    """Refuse a request without the token of the settings."""
    token = Serving.of(request).token
    sent_token = credentials.credentials if credentials else ""
    if token is None or not hmac.compare_digest(sent_token.encode("latin-1"), token.get_secret_value().encode()):
        raise RequestError(
            HTTPStatus.UNAUTHORIZED,
            "The token is wrong" if credentials else "The token is missing",
            where="header Authorization",
            action="Send Authorization: Bearer TOKEN, with the value of LAKEHOUSE_SERVE_TOKEN of the server.",
        )


class VersionOption(BaseModel):
    """Which version is read."""

    version: int | None = Field(
        None, ge=0, le=_GREATEST_VERSION, description="The number of a version; default: the newest."
    )


class TableOptions(VersionOption):
    """Which version of a table is shown; there are no filters, so another parameter is misspelt."""

    model_config = ConfigDict(extra="forbid")


class PageOptions(BaseModel):
    """Which part of the result is read."""

    limit: int = Field(1_000, ge=1, le=_MAX_ROWS, description="Rows, groups or changes of a page.")
    page: str | None = Field(None, max_length=300, description="Where a page begins, from next of an answer.")


class RowOptions(PageOptions, VersionOption):
    """How rows are read."""

    columns: list[str] = Field([], description="Columns of the answer; default: all.")
    order: list[str] = Field([], description="Columns to order by; -COLUMN for the greatest first. NULL is last.")


class AggregateOptions(PageOptions, VersionOption):
    """How a column is aggregated."""

    column: str = Field(description="A numeric column.")
    by: list[str] = Field([], description="Columns: the rows of a group have equal values in them.")
    period: Literal["hour", "day", "month", "year"] | None = Field(None, description="Groups share it, UTC.")
    time: str | None = Field(None, description="The column of the period; default: the only one that has times.")


class ChangeOptions(PageOptions):
    """Which changes are read."""

    since: int = Field(ge=-1, le=_GREATEST_VERSION, description="Changes after this version of the table; -1 for all.")
