"""The version of a table that a request is answered from, and the answer: JSON with that version in the ETag."""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from pydantic import SecretStr
from pydantic_core import to_json

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import spelling_hint
from lakehouse.discovery import find_tables, find_views
from lakehouse.exports.row_texts import json_ready
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import ledger_as_of, ledger_of
from lakehouse.ledger.log import open_table, open_version
from lakehouse.ledger.versions import TableVersion, find_version
from lakehouse.query import table_names
from lakehouse.query.connections import quoted_name, scan_sql
from lakehouse.serve.database import Database, Part, Rows, Statement
from lakehouse.serve.models import RequestError, wrong_parameter
from lakehouse.settings import Settings

_VERSION, _TABLE_ID = "source_version", "source_table_id"
PAGE = "page"
_MAX_NUMBER = 2**53


@dataclass(frozen=True)
class Snapshot:
    """One version of a table, and the types of its columns by their names, as DuckDB writes them."""

    version: TableVersion
    table_id: str
    columns: Mapping[str, str]

    @property
    def tag(self) -> str:
        """What identifies the version: a table that is created again uses the same numbers."""
        return f"{self.version.number}-{self.table_id}"

    @property
    def fields(self) -> dict[str, object]:
        """The fields by which an answer names its version."""
        committed_at = self.version.committed_at
        return {"table": self.version.table, "version": self.version.number, "committed_at": committed_at}

    def column(self, name: str, parameter: str) -> str:
        """Return the name if it is that of a column."""
        if name in self.columns:
            return name
        action = f"{spelling_hint(name, self.columns)}Columns: {', '.join(self.columns)}."
        raise wrong_parameter(parameter, f"Table {self.version.table} has no column {name!r}", action)

    def column_of(self, names: Sequence[str], parameter: str) -> list[str]:
        """Return the names, each once, if they are those of columns."""
        return [self.column(name, parameter) for name in dict.fromkeys(names)]


def existing_tables(settings: Settings) -> list[str]:
    """List the tables and materialized views that exist; at a URI, those that are declared.

    Rows that were stored when a view was still materialized are left out.
    """
    declared_names = {name for table in find_tables(settings) for name in table.tables}
    declared_names |= {view.name for view in find_views(settings)}
    view_names = _views_without_rows(settings)
    return [name for name in table_names(settings, declared_names) if name not in view_names]


def _views_without_rows(settings: Settings) -> set[str]:
    return {view.name for view in find_views(settings) if not view.materialized}


def require_table(settings: Settings, name: str) -> None:
    """Refuse the name of a table that does not exist."""
    names = existing_tables(settings)
    if name in _views_without_rows(settings):
        action = "Declare it with materialized=True, or use lakehouse query."
        raise RequestError(HTTPStatus.NOT_FOUND, f"The rows of view {name} are not stored", where="path", action=action)
    if name not in names:
        tables = f"Tables: {', '.join(names)}." if names else "There are no tables yet."
        action = f"{spelling_hint(name, names)}{tables}"
        raise RequestError(HTTPStatus.NOT_FOUND, f"There is no table {name!r}", where="path", action=action)


def declared_table(settings: Settings, name: str) -> StreamTable:
    """Return a declared table, whether it exists yet or not."""
    tables = {table.name: table for table in find_tables(settings)}
    if name not in tables:
        action = f"{spelling_hint(name, tables)}Declared tables: {', '.join(tables) or 'none'}."
        raise RequestError(HTTPStatus.NOT_FOUND, f"Table {name!r} is not declared", where="path", action=action)
    return tables[name]


def find_snapshot(settings: Settings, database: Database, name: str, number: int | None) -> Snapshot:
    """Find a version of a table, by default the newest; ``RequestError`` or ``TableError`` if it does not exist."""
    require_table(settings, name)
    uri = settings.table_uri(name)
    version = find_version(uri, name, number)
    table = open_table(uri)
    columns = database.fetch(Statement(f"DESCRIBE {scan_sql(version)}"), version)
    types = {str(column["column_name"]): str(column["column_type"]) for column in columns}
    return Snapshot(version, str(table.metadata().id) if table else "", types)


@dataclass(frozen=True)
class Serving:
    """The state of a server."""

    settings: Settings
    database: Database

    @property
    def token(self) -> SecretStr | None:
        """The token that requests need; ``None`` if they need none."""
        return self.settings.serve_token

    @staticmethod
    def of(request: Request) -> "Serving":
        """Return the state of the server of a request."""
        state: Serving = request.app.state.serving
        return state


def find_feed(settings: Settings, database: Database, name: str, number: int | None) -> tuple[Snapshot, Consumed]:
    """Find a version of the change feed of a table, and the version of the table that it has read.

    ``RequestError`` if the table has no feed, or if nothing was merged into the feed yet.
    """
    require_table(settings, name)
    feed_name = f"{name}_changes"
    if feed_name not in existing_tables(settings):
        raise _without_feed(name, "Log tables have none; of other tables, lakehouse merge creates it.")
    snapshot = find_snapshot(settings, database, feed_name, number)
    ledger = ledger_of(settings, feed_name)
    if ledger.version != snapshot.version.number:
        uri = snapshot.version.uri
        ledger = ledger_as_of(open_version(uri, snapshot.version.number), uri, feed_name)
    if ledger.consumed is None or not {_VERSION, _TABLE_ID} <= {*snapshot.columns}:
        raise _without_feed(name, f"{feed_name} is another table, or has read no version yet.")
    return snapshot, ledger.consumed


def _without_feed(name: str, action: str) -> RequestError:
    return RequestError(HTTPStatus.NOT_FOUND, f"Table {name} has no change feed", where="path", action=action)


def changes_after(condition: Statement, consumed: Consumed, since: int) -> Statement:
    """Filter the feed to the changes after a version of its table."""
    sql = f"{quoted_name(_VERSION)} > ? AND {quoted_name(_TABLE_ID)} = ? AND ({condition.sql})"
    return Statement(sql, [since, consumed.table_id, *condition.values])


def order_of_changes(snapshot: Snapshot) -> list[tuple[str, bool]]:
    """Return the order of changes: by the version that made them, and then a total one."""
    return [(_VERSION, False), *((name, False) for name in snapshot.columns if name != _VERSION)]


def answer(request: Request, tag: str, read: Callable[[], Mapping[str, Any]]) -> Response:
    """Return what ``read`` returns, or 304 if the client has the answer with this tag."""
    return _respond(request, tag, lambda: json_bytes(read()))


def answer_without_version(request: Request, fields: Mapping[str, Any], version: int | None = None) -> Response:
    """Return the fields, with a tag of their content: for what changes without a commit."""
    body = json_bytes(fields)
    digest = hashlib.sha256(body).hexdigest()[:16]
    return _respond(request, digest if version is None else f"{version}-{digest}", lambda: body)


def json_bytes(value: Any) -> bytes:
    """Return a value in the JSON of ``lakehouse query``: exact decimals as text, times in ISO 8601, bytes in base64."""
    return to_json(json_ready(value))


def _respond(request: Request, tag: str, read: Callable[[], bytes]) -> Response:
    headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
    known_tags = {text.strip().removeprefix("W/") for text in request.headers.get("If-None-Match", "").split(",")}
    if known_tags & {"*", headers["ETag"]}:
        return Response(None, HTTPStatus.NOT_MODIFIED, headers)
    return Response(read(), HTTPStatus.OK, headers, "application/json")


@dataclass(frozen=True)
class Page:
    """The place of a page: the version, how many rows are before it, and a digest of the table and the request."""

    version: int
    skip: int
    digest: str

    @property
    def token(self) -> str:
        """The page as text."""
        return urlsafe_b64encode(json.dumps([self.version, self.skip, self.digest]).encode()).decode().rstrip("=")


def parse_page(token: str | None) -> Page | None:
    """Return the page of a token; ``RequestError`` if it is not one."""
    if token is None:
        return None
    try:
        version, skip, digest = json.loads(urlsafe_b64decode(f"{token}{'=' * (-len(token) % 4)}"))
    except (ValueError, TypeError):
        raise _wrong_page("is not the token of a page") from None
    is_valid = all(type(number) is int and 0 <= number < _MAX_NUMBER for number in (version, skip))
    if not is_valid or not isinstance(digest, str):
        raise _wrong_page("is not the token of a page")
    return Page(version, skip, digest)


def rows_before(request: Request, snapshot: Snapshot, page: Page | None) -> int:
    """Return how many rows are before the page; ``RequestError`` if it is one of another request or table."""
    if page is None:
        return 0
    if page.digest != _digest(request, snapshot):
        raise _wrong_page("belongs to other parameters, or to a table that has been created again")
    return page.skip


def show_page(request: Request, snapshot: Snapshot, rows: Rows, part: Part) -> dict[str, Any]:
    """Return the rows of the page, and the address of the next page; ``None`` at the end."""
    following = None
    if rows.has_more:
        page = Page(snapshot.version.number, part.skip + len(rows.rows), _digest(request, snapshot))
        parameters = [(name, text) for name, text in request.query_params.multi_items() if name != PAGE]
        following = f"{request.url.path}?{urlencode([*parameters, (PAGE, page.token)])}"
    return {"rows": rows.rows, "next": following}


def _digest(request: Request, snapshot: Snapshot) -> str:
    parameters = [item for item in request.query_params.multi_items() if item[0] != PAGE]
    text = json.dumps([snapshot.table_id, request.url.path, parameters])
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _wrong_page(problem: str) -> RequestError:
    return wrong_parameter(PAGE, f"The page {problem}", "Use the address in next of an answer, or begin without page.")
