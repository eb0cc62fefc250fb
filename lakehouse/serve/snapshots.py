"""The version of a table that a request is answered from: it stays the same, however many commits follow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import Request
from pydantic import SecretStr

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import spelling_hint
from lakehouse.discovery import find_tables, find_views
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import ledger_as_of, ledger_of
from lakehouse.ledger.log import open_table, open_version
from lakehouse.ledger.versions import TableVersion, find_version
from lakehouse.query import table_names
from lakehouse.query.connections import quoted_name, scan_sql
from lakehouse.serve.database import Database
from lakehouse.serve.problems import RequestError, wrong_parameter
from lakehouse.serve.statements import Statement
from lakehouse.settings import Settings

_VERSION, _TABLE_ID = "source_version", "source_table_id"


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
    """List the tables that exist; at a URI, those that are declared.

    Rows that were stored when a view was still materialized are left out.
    """
    names = table_names(settings, [name for table in find_tables(settings) for name in table.tables])
    view_names = _views_without_rows(settings)
    return [name for name in names if name not in view_names]


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
