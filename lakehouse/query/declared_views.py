"""Declared views in a connection of DuckDB: which of them a query needs, and how they are created."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb

from lakehouse.declaration.view import View, find_inputs
from lakehouse.errors import QueryError
from lakehouse.ledger.past_versions import TableVersion
from lakehouse.query.connections import (
    connect,
    lock_connection,
    quoted_name,
    run_statement,
    scan_sql,
    view_refusal,
)
from lakehouse.query.statements import words_of
from lakehouse.settings import Settings


@dataclass(frozen=True)
class DeclaredViews:
    """Declared views, each after those that it reads. A materialized view is a table of its name."""

    views: Sequence[View]

    def named_in(self, sql: str) -> list[View]:
        """Return the views that a query names, by their words."""
        words = {*words_of(sql)} if self.views else set[str]()
        return [view for view in self.views if view.name.upper() in words]

    def tables_of(self, sql: str) -> set[str]:
        """Return the tables that the views in a query are computed from."""
        return {table for view in self._plain_in(sql) for table in find_inputs(view, self.views).tables}

    def create(self, connection: duckdb.DuckDBPyConnection, tables: Sequence[str], sql: str) -> Iterator[str]:
        """Create the views, and yield the names of those that can be read.

        A view that cannot be read, as before its tables exist, is an error only if the query needs it.
        """
        for view in self.named_in(sql):
            if view.materialized and view.name not in tables:
                action = f"Store its rows first: lakehouse materialize {view.name}"
                raise QueryError(f"View {view.name} is materialized, but its rows are not stored yet", action=action)
        plain_views = self._plain_in(sql)
        inner_views = {inner.name for view in plain_views for inner in find_inputs(view, self.views).views}
        needed_names = {*inner_views, *(view.name for view in plain_views)}
        for view in self.views:
            try:
                if not view.materialized:
                    run_statement(connection, f"CREATE OR REPLACE VIEW {quoted_name(view.name)} AS {view.sql}")
                    yield view.name
            except duckdb.Error as error:
                if view.name in needed_names:
                    action = "If a table does not exist yet, run lakehouse merge or lakehouse materialize first."
                    raise view_refusal(error, action, f"View {view.name} cannot be read") from None

    def _plain_in(self, sql: str) -> list[View]:
        return [view for view in self.named_in(sql) if not view.materialized]


@contextmanager
def open_versions(settings: Settings, versions: Mapping[str, int]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection in which each table is a view of one version; it opens no file outside of the tables."""
    with connect(settings) as connection:
        for name, number in versions.items():
            scan = scan_sql(TableVersion(name, settings.table_uri(name), number, None))
            run_statement(connection, f"CREATE VIEW {quoted_name(name)} AS {scan}")
        lock_connection(connection, settings.tables_root)
        yield connection
