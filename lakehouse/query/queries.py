"""Runs SQL over the tables, and gives its rows at once or in parts."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from duckdb import StatementType

from lakehouse.declaration.view import View, find_inputs
from lakehouse.decoding.fields import is_text
from lakehouse.errors import QueryError
from lakehouse.ledger.log import is_table
from lakehouse.ledger.versions import Point, TableVersion, find_version
from lakehouse.query.connections import (
    QUOTES,
    connect,
    interruptible,
    lock_connection,
    missing_files,
    quoted_name,
    quoted_text,
    refusal,
    run_statement,
    scan_sql,
    view_refusal,
)
from lakehouse.settings import Settings
from lakehouse.settings.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

_READING_WORDS = {
    "SELECT",
    "WITH",
    "FROM",
    "VALUES",
    "TABLE",
    "DESCRIBE",
    "DESC",
    "SHOW",
    "SUMMARIZE",
    "PIVOT",
    "UNPIVOT",
}
_WORD = re.compile(r'\w+|"[^"]*"|.', re.DOTALL)
_OPENING_FUNCTIONS = re.compile(r"DELTA_(SCAN|LIST|DOMAIN|GET|SET|FILTER)\w*|QUERY|JSON_EXECUTE\w*")
"""Functions that open a table by its path, or that run SQL text, which could call such a function."""
_FILE_FUNCTIONS = re.compile(r"READ_\w+|\w+_SCAN(_\w+)?|PARQUET_\w+|GLOB|SNIFF_CSV|QUERY_TABLE")
_PART = 10_000  # rows that are fetched together
CORRECT = "Correct the query; it is in DuckDB's SQL."
_ADVICE = "Use one SELECT, WITH, DESCRIBE, SHOW or EXPLAIN."


def require_reading(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse everything but one statement that reads."""
    if not is_text(sql):
        raise QueryError("The query is not UTF-8", action=CORRECT)
    try:
        types = [statement.type for statement in connection.extract_statements(sql)]
    except duckdb.Error as error:
        raise refusal(error, f"{CORRECT} {_ADVICE} {QUOTES}") from None
    words = words_of(sql)
    is_pivot = words[:1] == ["PIVOT"] and types == [StatementType.CREATE, StatementType.SELECT]  # as DuckDB splits it
    if len(types) != 1 and not is_pivot:
        count_text = f"contains {len(types)}" if types else "is empty"
        raise QueryError(f"A query must be one statement, but this one {count_text}", action=_ADVICE)
    query_words = _explained_words(words) if words[0] == "EXPLAIN" else words
    first_word = next((word for word in query_words if word not in "(;"), "")
    if first_word not in _READING_WORDS:
        raise QueryError(f"This statement does not only read: {sql.strip()[:40]!r}", action=_ADVICE)
    if any(_OPENING_FUNCTIONS.fullmatch(word) and next_word == "(" for word, next_word in pairwise(words)):
        raise QueryError("A query cannot open a table by its path", action="Use its name; SHOW TABLES lists all names.")


def _require_names(connection: duckdb.DuckDBPyConnection, settings: Settings, sql: str) -> None:
    """Refuse a query that opens a file of a store.

    DuckDB compares an address with the folder of the tables as a text, before ``..`` in it leads elsewhere, and takes
    other hosts from its options.
    """
    refusal_of_files = QueryError("A query of tables in a store cannot open a file", action="Name a table instead.")
    words = words_of(sql)
    if any(_FILE_FUNCTIONS.fullmatch(word) and next_word == "(" for word, next_word in pairwise(words)):
        raise refusal_of_files
    try:
        names = connection.get_table_names(sql, qualified=True)
    except duckdb.Error:  # PIVOT, for example; with a backslash, a literal can be any address
        names = {settings.tables_root if "\\" in sql else sql}
    if any(Store(name).is_address for name in names):
        raise refusal_of_files


def _explained_words(words: Sequence[str]) -> Sequence[str]:
    """The words after EXPLAIN and its options; with ANALYZE, DuckDB runs that statement."""
    if words[1:2] == ["ANALYZE"]:
        return words[2:]
    has_options = words[1:2] == ["("] and words[2] in ("ANALYZE", "FORMAT") and ")" in words
    return words[words.index(")") + 1 :] if has_options else words[1:]


def words_of(sql: str) -> list[str]:
    """Return the words and signs of a statement, in capitals, without comments, quotes and the text of literals."""
    text = sql.encode()  # tokens are counted in bytes
    literal = duckdb.token_type.string_const
    parts = ["'" if kind == literal else text[start:].decode(errors="replace") for start, kind in duckdb.tokenize(sql)]
    matches = (_WORD.match(part) for part in parts)
    return [match[0].strip('"').upper() for match in matches if match]


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


@dataclass(frozen=True)
class Result:
    """The result of a query: the names of its columns, and its rows; times are in UTC."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


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


def query(settings: Settings, sql: str, names: Iterable[str] = (), views: Sequence[View] = ()) -> Result:
    """Run one reading statement over the tables; each table is a view of its newest version, under its name.

    ``names`` are the tables to look for at a URI, which cannot be listed. ``views`` are the declared views, each
    after those that it reads; a materialized view is a table. Changes nothing. Raises ``QueryError`` for any other
    statement, for invalid SQL, and for a table that does not exist or cannot be read.
    """
    with open_query(settings, sql, names, views=views) as running_query:
        return Result(running_query.columns, running_query.fetch())


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
        if settings.store.bucket:
            _require_names(connection, settings, sql)
        tables = table_names(settings, {*names, *(view.name for view in views if view.materialized)})
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
            cause = _cause_of(error, connection, sql)
            raise missing_files(cause, versions) or refusal(cause, action) from None


def _cause_of(error: duckdb.Error, connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Error:
    """The error that ended a query: that of one thread interrupts the others, whose end DuckDB may report (seen).

    The query then runs again, up to its error. A signal raises another exception, so it never comes here.
    """
    try:
        if isinstance(error, duckdb.InterruptException):
            run_statement(connection, sql)
            while interruptible(connection, lambda: connection.fetchmany(_PART)):
                pass
    except duckdb.Error as cause:
        return cause
    return error


def _next_batch(reader: "pa.RecordBatchReader") -> "pa.RecordBatch | None":
    try:
        return next(reader, None)
    except OSError as error:  # how Arrow passes on an error of DuckDB
        kind = duckdb.InterruptException if str(error).startswith("INTERRUPT Error") else duckdb.Error
        raise kind(str(error)) from None


def table_names(settings: Settings, names: Iterable[str] = ()) -> list[str]:
    """List the tables that exist: in the folder of the tables or, at a URI, among ``names``."""
    if settings.store.folder is None:
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
        scan = f"SELECT * FROM delta_scan({quoted_text(Store(settings.table_uri(name)).duckdb_uri)})"
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
