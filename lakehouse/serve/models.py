"""The schemas of the answers, for the OpenAPI document, and of errors, as RFC 9457 has them."""

import json
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from lakehouse.errors import LakehouseError, StoreRefusedError, StoreUnreachableError, TableError

Row = dict[str, Any]
PROBLEM_TYPE = "application/problem+json"


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    type: Literal["about:blank"]
    title: str = Field(description="The name of the status.")
    status: int
    detail: str = Field(description="What happened.")
    where: str = Field(description="The parameter, header, table or place; empty if there is none.")
    action: str = Field(description="What to do.")


class Health(BaseModel):
    """The server answers, and can list the tables."""

    status: Literal["ok"]


class TableVersionAnswer(BaseModel):
    """An answer from one version of a table."""

    table: str
    version: int
    committed_at: datetime | None = Field(description="UTC; null if the commit has expired from the log.")


class ListedTable(BaseModel):
    """A table, and its newest version."""

    name: str
    version: int | None = Field(description="null if the table cannot be read; problem says why.")
    problem: str | None


class TableList(BaseModel):
    """All tables that exist."""

    tables: list[ListedTable]


class ColumnFacts(BaseModel):
    """A column: its type as DuckDB writes it, whether it may be NULL, and its description."""

    name: str
    type: str
    nullable: bool
    description: str | None


class TableFacts(TableVersionAnswer):
    """The columns of a table, and the number of its rows."""

    rows: int
    columns: list[ColumnFacts]


class RowPage(TableVersionAnswer):
    """Rows of a table."""

    rows: list[Row]
    next: str | None = Field(description="The address of the next page, of the same version; null at the end.")


class Group(BaseModel):
    """The figures of a group."""

    group: Row = Field(description="The values of the columns of by.")
    period: Any = Field(description="The start of the period, UTC; null without period, and for rows without a time.")
    rows: int
    count: int = Field(description="Rows whose value is not NULL.")
    minimum: Any
    maximum: Any
    average: float | str | None = Field(description="A double; NaN and infinities are text.")


class AggregatePage(TableVersionAnswer):
    """Minimum, maximum, average and count of a column, by groups."""

    column: str
    groups: list[Group]
    next: str | None


class ChangePage(BaseModel):
    """Changes of a table, up to its version: the next request begins with since=version."""

    table: str
    version: int = Field(description="The version of the table up to which the feed has its changes.")
    table_id: str = Field(description="If it changes, the table was created again: begin with since=-1.")
    feed_version: int
    changes: list[Row]
    next: str | None


class StatusAnswer(BaseModel):
    """The status of a declared table, as lakehouse status --json has it."""

    model_config = ConfigDict(extra="allow")

    table: str
    exists: bool
    version: int | None
    lag: int | None = Field(description="Offsets still to merge; null if the broker does not answer.")
    up_to_date: bool


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
