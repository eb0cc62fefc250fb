"""The application: its routes behind the gate, its errors as problems, and its OpenAPI document."""

from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from lakehouse.errors import LakehouseError
from lakehouse.serve import models
from lakehouse.serve.answers import answer_without_version
from lakehouse.serve.gate import Gate, require_token
from lakehouse.serve.problems import PROBLEM_TYPE, RequestError, problem_of, wrong_parameter
from lakehouse.serve.routes import router
from lakehouse.serve.serving import Serving
from lakehouse.serve.snapshots import existing_tables

_DOCUMENT = "/v1/openapi.json"
_SCHEMA_OF_PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    304: {"description": "The client has this answer: If-None-Match has its ETag."},
    **{
        status: {"description": description, "model": models.Problem, "content": {PROBLEM_TYPE: _SCHEMA_OF_PROBLEM}}
        for status, description in (("4XX", "The request cannot be answered."), ("5XX", "The server cannot answer."))
    },
}


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
    """Return the problem for any error."""
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
