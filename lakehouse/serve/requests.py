"""What a request must meet before it is read, and its parameters: options and conditions."""

import hmac
import re
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal, localcontext
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from lakehouse.ledger.versions import parse_time
from lakehouse.query.connections import quoted_name
from lakehouse.serve.database import DECIMAL, Grouping, Statement
from lakehouse.serve.models import RequestError, problem_of, wrong_parameter
from lakehouse.serve.snapshots import Serving, Snapshot

MAX_TARGET = 8_192  # bytes of path and query
_LOCAL_NAME = "localhost"
_HOST = re.compile(r"(?:\[(?P<address>[^]]*)\]|(?P<name>[^]:[]*))(?::[0-9]*)?")
_MAX_ROWS = 10_000
_GREATEST_VERSION = 2**53 - 1
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
FLOATS = ("FLOAT", "DOUBLE")
TIMES = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "DATE")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,38}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,38}(\.[0-9]{0,38})?|\.[0-9]{1,38})")
_OPERATORS = {"from": ">=", "to": "<"}
_BOOLEANS = {"true": True, "false": False}


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


def is_numeric(type_: str) -> bool:
    """Whether values of a type of DuckDB have an average."""
    return type_ in (*INTEGERS, *FLOATS) or DECIMAL.fullmatch(type_) is not None


def read_condition(snapshot: Snapshot, parameters: Iterable[tuple[str, str]], options: Container[str]) -> Statement:
    """Return the condition of the parameters that are not options; each of them must be met.

    A column with several values may have any of them. NULL meets no condition.
    """
    conditions, values = [], []
    texts_by_name: dict[str, list[str]] = {}
    for name, text in parameters:
        if name not in options:
            texts_by_name.setdefault(name, []).append(text)
    for name, texts in texts_by_name.items():
        column, _, bound = ("", "", "") if name in snapshot.columns else name.rpartition(".")
        operator = _OPERATORS.get(bound, "=")
        name_of_column = snapshot.column(column if bound == "is" or operator != "=" else name, name)
        type_ = snapshot.columns[name_of_column]
        if operator != "=" and type_ not in TIMES and not is_numeric(type_):
            raise wrong_parameter(name, f"Column {name_of_column} has neither times nor numbers", "Remove the bound.")
        values += [_parse(name, text, type_) for text in texts]
        alternatives = [f"{quoted_name(name_of_column)} {operator} ?"] * len(texts)
        conditions.append(f"({(' AND ' if operator != '=' else ' OR ').join(alternatives)})")
    return Statement(" AND ".join(conditions) or "true", values)


def read_order(snapshot: Snapshot, texts: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the columns to order by, and whether the greatest value comes first.

    The other columns follow, so that only equal rows have no order between them.
    """
    order: dict[str, bool] = {}
    for text in texts:
        is_falling = text.startswith("-") and text not in snapshot.columns
        order.setdefault(snapshot.column(text[1:] if is_falling else text, "order"), is_falling)
    return list({**order, **{name: False for name in snapshot.columns if name not in order}}.items())


def require_numeric(snapshot: Snapshot, column: str) -> None:
    """Refuse to aggregate a column that does not exist, or has no numbers."""
    type_ = snapshot.columns[snapshot.column(column, "column")]
    if not is_numeric(type_):
        numeric_columns = [name for name, other_type in snapshot.columns.items() if is_numeric(other_type)]
        action = f"Numeric columns: {', '.join(numeric_columns) or 'none'}."
        raise wrong_parameter("column", f"Column {column} has the type {type_}, which has no average", action)


def choose_grouping(snapshot: Snapshot, columns: Sequence[str], period: str | None, time: str | None) -> Grouping:
    """Return the groups of an aggregate; the time of the period is the only one of the table if none is named."""
    names = snapshot.column_of(columns, "by")
    times = [name for name, type_ in snapshot.columns.items() if type_ in TIMES]
    if time is None and period is not None and len(times) == 1:
        time = times[0]
    action = f"Columns with times: {', '.join(times) or 'none'}."
    if (period is None) != (time is None):
        missing_option = "time" if time is None else "period"
        raise wrong_parameter(missing_option, f"The period of groups needs {missing_option} too", action)
    if time is not None and snapshot.column(time, "time") not in times:
        problem = f"Column {time} has the type {snapshot.columns[time]}, which is not a time"
        raise wrong_parameter("time", problem, action)
    return Grouping(names, period, time)


def _parse(name: str, text: str, type_: str) -> Any:
    """Return the value of a text, for a column of this type."""
    decimal_match = DECIMAL.fullmatch(type_)
    parse = _PARSERS.get(type_)
    if decimal_match:
        parse = partial(_decimal, precision=int(decimal_match[1]), scale=int(decimal_match[2]))
    if parse is None:
        raise wrong_parameter(name, f"Columns of type {type_} have no filter", "Remove the parameter.")
    try:
        return parse(text)
    except (ValueError, KeyError) as error:
        hint = f": {error}" if type_ in TIMES and isinstance(error, ValueError) else ""
        action = f"Write {_EXAMPLES.get(type_, 'a number that the column can have')}."
        raise wrong_parameter(name, f"{text!r} is not a value of type {type_}{hint}", action) from None


def _whole_number(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    """Return the number with the places of the column; a number that no row can have is refused."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    with localcontext(prec=100):
        value = Decimal(text)
        placed_value = value.quantize(Decimal(1).scaleb(-scale))
    if placed_value != value or abs(value) >= Decimal(10) ** (precision - scale):
        raise ValueError(text)
    return placed_value


def _time_without_zone(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is not None:
        raise ValueError("the column has times without a zone")
    return time


_PARSERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(FLOATS, float),
    **dict.fromkeys(INTEGERS, _whole_number),
    "BOOLEAN": lambda text: _BOOLEANS[text],
    "VARCHAR": str,
    "TIMESTAMP WITH TIME ZONE": parse_time,
    "TIMESTAMP": _time_without_zone,
    "DATE": date.fromisoformat,
}
_EXAMPLES = {
    "BOOLEAN": "true or false",
    "TIMESTAMP WITH TIME ZONE": "a time such as 2026-11-01T00:00:00Z; in an address, + is written %2B",
    "TIMESTAMP": "a time such as 2026-11-01T00:00:00",
    "DATE": "a day such as 2026-11-01",
}
