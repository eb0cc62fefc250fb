"""Tables whose rows a sink brings to a database, and the rows that are there."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from deltalake import DeltaTable

from lakehouse.declaration import PostgresTable, Sink, SqlServerTable
from lakehouse.declaration.sink import RowIdentity
from lakehouse.exports.progress import OutletStatus
from lakehouse.settings import Settings
from lakehouse.sinks.database import DatabaseDelivery
from lakehouse.sinks.delivery import SinkUpdate
from lakehouse.sinks.progress import sink_status
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.databases.sql_server import SqlServer, running_sql_server

BY_ID = RowIdentity(("id",))
SALES = Sink("sales_in_postgres", of="sales", to=PostgresTable("sales"))


@dataclass(frozen=True)
class Target:
    """A database of its own, and a sink that writes into it."""

    server: Postgres
    database: str
    settings: Settings
    sink: Sink = SALES
    identity: RowIdentity = BY_ID
    sql_server: SqlServer | None = None

    @property
    def delivery(self) -> DatabaseDelivery:
        return DatabaseDelivery(self.settings, self.sink, self.identity)

    def update(self, *, whole: bool = False) -> SinkUpdate:
        return self.delivery.update(whole=whole)

    def status(self, retention: timedelta) -> OutletStatus:
        return sink_status(self.settings, self.sink, retention)

    def with_sink(self, **changes: Any) -> "Target":
        return replace(self, sink=replace(self.sink, **changes))

    def run(self, *statements: str) -> None:
        self.server.run(*statements, database=self.database)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return list(self.server.rows(query, database=self.database))

    def stored_rows(self) -> Counter[str]:
        """The rows of the target."""
        names = self._names
        selected = ", ".join(f'"{name}"' for name in names)
        schema, _, name = self.sink.to.full_name.partition(".")
        return Counter(map(_row_text, self.rows(f'SELECT {selected} FROM "{schema}"."{name}"')))

    def table_rows(self, version: int | None = None) -> Counter[str]:
        """The rows of the table, by default of its newest version, as the target should have them."""
        rows = (
            DeltaTable(self.settings.table_uri(self.sink.of), version)
            .to_pyarrow_table()
            .select(self._names)
            .to_pylist()
        )
        return Counter(_row_text(row.values()) for row in rows)

    @property
    def _names(self) -> list[str]:
        fields = DeltaTable(self.settings.table_uri(self.sink.of)).schema().fields
        return list(self.sink.columns) or [field.name for field in fields if not field.name.startswith("_")]


def _row_text(values: Iterable[Any]) -> str:
    return str([value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value for value in values])


@contextmanager
def new_target(server: Postgres, home: Path) -> Iterator[Target]:
    """A new database, which is dropped at the end, and settings that name it."""
    database = f"sinks_{uuid4().hex[:12]}"
    server.run(f'CREATE DATABASE "{database}"')
    url = f"postgresql://postgres@127.0.0.1:{server.port}/{database}"
    try:
        settings = Settings(home=home, sync=False, sink_urls=json.dumps({"postgres": url}))
        yield Target(server, database, settings)
    finally:
        server.run(f'DROP DATABASE "{database}" WITH (FORCE)')


@contextmanager
def new_sql_server_target(server: Postgres, home: Path) -> Iterator[Target]:
    """A new database of a stand-in for SQL Server, which keeps its rows in PostgreSQL."""
    with new_target(server, home) as target:
        target.run("CREATE SCHEMA dbo", f'ALTER DATABASE "{target.database}" SET search_path = dbo')
        with running_sql_server(server, target.database) as sql_server:
            settings = Settings(home=home, sync=False, sink_urls=json.dumps({"sqlserver": sql_server.url}))
            sink = replace(SALES, name="sales_in_sql_server", to=SqlServerTable("sales"))
            yield replace(target, settings=settings, sink=sink, sql_server=sql_server)
