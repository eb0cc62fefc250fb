"""Runs SQL over the tables, and gives its rows at once or in parts."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from lakehouse.declaration.view import View
from lakehouse.errors import QueryError
from lakehouse.ledger.log import is_table
from lakehouse.ledger.past_versions import Point, TableVersion, find_version
from lakehouse.query.connections import (
    connect,
    interruptible,
    lock_connection,
    missing_files,
    quoted_name,
    quoted_text,
    refusal,
    run_statement,
    scan_sql,
)
from lakehouse.query.declared_views import DeclaredViews
from lakehouse.query.statements import CORRECT, require_reading, words_of
from lakehouse.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Result:
    """The result of a query: the names of its columns, and its rows; times are in UTC.

    ``has_more`` means that a limit cut off further rows.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    has_more: bool = False


@dataclass(frozen=True)
class RunningQuery:
    """A query whose rows are fetched in parts, each row once, so that no more than a part is in memory.

    ``versions`` are those that it reads if it reads the tables as of a point. Ctrl-C interrupts it at once.
    """

    connection: duckdb.DuckDBPyConnection
    columns: list[str]
    versions: Sequence[TableVersion]

    def fetch(self, count: int | None = None) -> list[tuple[Any, ...]]:
        """Fetch the next ``count`` rows, or all; fewer at the end of the result."""
        cursor = self.connection
        return interruptible(cursor, cursor.fetchall if count is None else lambda: cursor.fetchmany(count))

    def parts(self, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """Fetch the rows, ``count`` at a time."""
        return iter(lambda: self.fetch(count), [])

    def batches(self, count: int) -> "tuple[pa.Schema, Iterator[pa.RecordBatch]]":
        """Return the types of the columns in Arrow, and fetch the rows in it, ``count`` at a time."""
        reader = interruptible(self.connection, lambda: self.connection.to_arrow_reader(count))
        return reader.schema, iter(lambda: interruptible(self.connection, lambda: _next_batch(reader)), None)


def query(
    settings: Settings, sql: str, names: Iterable[str] = (), limit: int | None = None, views: Sequence[View] = ()
) -> Result:
    """Run one reading statement over the tables; each table is a view of its newest version, under its name.

    ``names`` are the tables to look for at a URI, which cannot be listed. ``views`` are the declared views, each
    after those that it reads; a materialized view is a table. Reads at most ``limit`` rows of the result.
    Changes nothing. Raises ``QueryError`` for any other statement, for invalid SQL, and for a table that does not exist
    or cannot be read.
    """
    with open_query(settings, sql, names, views=views) as running_query:
        rows = running_query.fetch(None if limit is None else limit + 1)
        return Result(running_query.columns, rows[:limit], has_more=limit is not None and len(rows) > limit)


@contextmanager
def open_query(
    settings: Settings,
    sql: str,
    names: Iterable[str] = (),
    as_of: Point | None = None,
    views: Sequence[View] = (),
) -> Iterator[RunningQuery]:
    """Start a query as ``query`` does, for results of any size; with ``as_of``, over the tables as they were then.

    A time applies to each table that the query names. Raises ``QueryError`` if a version is given for several tables,
    and ``TableError`` if there is no such version, or if its files are gone.
    """
    with connect(settings) as connection:
        require_reading(connection, sql)
        tables = table_names(settings, names)
        declared_views = DeclaredViews(views)
        words = {*words_of(sql), *(name.upper() for name in declared_views.tables_of(sql))}
        versions = [] if as_of is None else _find_versions(settings, tables, words, as_of)
        if as_of is None:
            _add_views(connection, settings, tables, words)
        try:
            for version in versions:
                run_statement(connection, f"CREATE VIEW {quoted_name(version.table)} AS {scan_sql(version)}")
            tables = sorted({*tables, *declared_views.create(connection, tables, sql)})
            lock_connection(connection, settings.tables_root)
            run_statement(connection, sql)
            yield RunningQuery(connection, [column[0] for column in connection.description or ()], versions)
        except duckdb.Error as error:
            is_about_names = isinstance(
                error, (duckdb.CatalogException, duckdb.BinderException, duckdb.PermissionException)
            )
            action = _list_tables(settings, tables) if is_about_names else CORRECT
            raise missing_files(error, versions) or refusal(error, action) from None


def _next_batch(reader: "pa.RecordBatchReader") -> "pa.RecordBatch | None":
    try:
        return next(reader, None)
    except OSError as error:  # how Arrow passes on an error of DuckDB
        raise duckdb.Error(str(error)) from None


def table_names(settings: Settings, names: Iterable[str] = ()) -> list[str]:
    """List the tables that exist: in the folder of the tables or, at a URI, among ``names``."""
    if not settings.store.is_path:
        return sorted(name for name in names if is_table(settings.table_uri(name)))
    return sorted(log.parent.name for log in Path(settings.tables_root).glob("[!.]*/_delta_log"))


def _find_versions(settings: Settings, tables: Sequence[str], words: set[str], as_of: Point) -> list[TableVersion]:
    """Find the versions of the tables that a query names by its words; a name in quotes of a literal is none."""
    named_tables = [name for name in tables if name.upper() in words]
    if not named_tables:
        raise QueryError("The query names no table that exists", action=_list_tables(settings, tables))
    if isinstance(as_of, int) and len(named_tables) > 1:
        problem = f"A version is that of one table, but the query names {', '.join(named_tables)}"
        raise QueryError(problem, action="Give a time, which applies to each of them.")
    return [find_version(settings.table_uri(name), name, as_of) for name in named_tables]


def _add_views(
    connection: duckdb.DuckDBPyConnection, settings: Settings, tables: Sequence[str], words: Collection[str]
) -> None:
    """Create a view for each table; one that cannot be read is an error only if its name is a word of the query."""
    for name in tables:
        scan = f"SELECT * FROM delta_scan({quoted_text(settings.table_uri(name))})"
        try:
            run_statement(connection, f"CREATE VIEW {quoted_name(name)} AS {scan}")
        except duckdb.Error as error:
            if name.upper() in words:
                advice = f"Read the message. To see if lakehouse can read the table: lakehouse status {name}"
                raise refusal(error, advice, f"Table {name} cannot be read") from None


def _list_tables(settings: Settings, tables: Sequence[str]) -> str:
    if tables:
        return f"Tables: {', '.join(tables)}."
    return f"There are no tables yet under {settings.tables_root}. Run lakehouse load-base or lakehouse merge first."
