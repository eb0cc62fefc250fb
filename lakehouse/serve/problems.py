"""Errors as RFC 9457 has them: the status of HTTP, what happened, where, and what to do."""

import json
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import Response

from lakehouse.errors import LakehouseError, StoreRefusedError, StoreUnreachableError, TableError

PROBLEM_TYPE = "application/problem+json"


class RequestError(LakehouseError):
    """A request that cannot be answered; ``status`` is the status of HTTP."""

    def __init__(self, status: HTTPStatus, what: str, *, where: str = "", action: str = "") -> None:
        super().__init__(what, where=where, action=action)
        self.status = status


def wrong_parameter(name: str, what: str, action: str) -> RequestError:
    """Return the error for a parameter that cannot be used."""
    return RequestError(HTTPStatus.BAD_REQUEST, what, where=f"parameter {name}", action=action)


def problem_of(error: LakehouseError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer for an error."""
    body = {
        "type": "about:blank",
        "title": _status_of(error).phrase,
        "status": _status_of(error).value,
        "detail": f"{error.what.rstrip('.')}.",
        "where": error.where,
        "action": error.action,
    }
    text = json.dumps(body, ensure_ascii=False).encode(errors="replace")
    return Response(text, _status_of(error), headers, PROBLEM_TYPE)


def _status_of(error: LakehouseError) -> HTTPStatus:
    if isinstance(error, RequestError):
        return error.status
    if isinstance(error, StoreUnreachableError | StoreRefusedError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.NOT_FOUND if type(error) is TableError else HTTPStatus.INTERNAL_SERVER_ERROR
