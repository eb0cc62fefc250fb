"""The SQL of the answers, and the DuckDBs that run it, one for each query at a time: within time and memory."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from queue import Empty, LifoQueue
from typing import Any, TypeVar

import duckdb
from pydantic_core import to_json

from lakehouse.errors import LakehouseError, TableError
from lakehouse.errors.causes import in_time
from lakehouse.exports.row_texts import json_ready
from lakehouse.ledger.versions import TableVersion
from lakehouse.query.connections import (
    connect,
    missing_files,
    quoted_name,
    refusal,
    renew_secret,
    run_statement,
    scan_sql,
)
from lakehouse.serve.models import RequestError
from lakehouse.settings import Settings

PERIODS = ("hour", "day", "month", "year")
DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_EXACT_DIGITS = 28  # the sum of ten billion such numbers has 38
MEGABYTE = 1_000_000
PAGE_MEGABYTES = 16
"""The most megabytes of JSON in a page, unless the command sets others."""
_LEAST_MEMORY = 512 * MEGABYTE  # of DuckDB for a query: with less, it cannot sort a page of long rows (seen)
_PAGES_IN_MEMORY = 4
_OF_THE_REQUEST = (duckdb.ConversionException, duckdb.OutOfRangeException)
_OF_THE_MACHINE = (duckdb.IOException,)
_LARGER_PAGE = "lakehouse serve --page-size sets a greater limit."
Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Statement:
    """A statement with a value for each of its question marks."""

    sql: str
    values: Sequence[Any] = ()


@dataclass(frozen=True)
class Part:
    """Which rows of a result are read: ``count`` after the first ``skip``, and one more to know if there are more."""

    count: int
    skip: int


@dataclass(frozen=True)
class Grouping:
    """The groups of an aggregate: columns with equal values, and the period of a time in UTC."""

    columns: Sequence[str]
    period: str | None = None
    time: str | None = None

    def name_values(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row of ``aggregate_rows`` with the names of the columns."""
        values = {name: row[f"g{index}"] for index, name in enumerate(self.columns)}
        period = row[f"g{len(self.columns)}"] if self.period else None
        figures = {name: row[name] for name in ("rows", "count", "minimum", "maximum", "average")}
        return {"group": values, "period": period, **figures}


def count_rows(version: TableVersion) -> Statement:
    """Count the rows of a version."""
    return Statement(f"SELECT count(*) AS rows FROM ({scan_sql(version)})")


def select_rows(
    version: TableVersion, columns: Sequence[str], condition: Statement, order: Sequence[tuple[str, bool]], part: Part
) -> Statement:
    """Select rows that meet a condition; ``order`` has columns, and whether the greatest value comes first."""
    names = ", ".join(map(quoted_name, columns))
    order_sql = ", ".join(
        f"{quoted_name(name)} {'DESC' if is_falling else 'ASC'} NULLS LAST" for name, is_falling in order
    )
    sql = f"SELECT {names} FROM ({scan_sql(version)}) WHERE {condition.sql} ORDER BY {order_sql} LIMIT ? OFFSET ?"
    return Statement(sql, [*condition.values, part.count + 1, part.skip])


def aggregate_rows(
    version: TableVersion, column: tuple[str, str], grouping: Grouping, condition: Statement, part: Part
) -> Statement:
    """Aggregate a numeric column of the rows that meet a condition; the columns of the result are g0, g1, ... and more.

    ``column`` is its name and its type.

    Without groups, there is one row, also if no row meets the condition. Groups are named by their place: a column of
    the table may be named g0 too.
    """
    groups = [quoted_name(name) for name in grouping.columns]
    if grouping.period and grouping.time:
        groups.append(f"date_trunc('{PERIODS[PERIODS.index(grouping.period)]}', {quoted_name(grouping.time)})")
    names = [f"g{index}" for index in range(len(groups))]
    group_sql = "".join(f"{group} AS {alias}, " for group, alias in zip(groups, names, strict=True))
    name, type_ = column
    value = quoted_name(name)
    figures = (
        f"count(*) AS rows, count({value}) AS count, min({value}) AS minimum, max({value}) AS maximum,"
        f" avg({_summed(value, type_)}) AS average"
    )
    places = [str(place) for place, _ in enumerate(groups, 1)]
    by_groups = f" GROUP BY {', '.join(places)} ORDER BY {', '.join(f'{place} NULLS LAST' for place in places)}"
    sql = f"SELECT {group_sql}{figures} FROM ({scan_sql(version)}) WHERE {condition.sql}{by_groups if groups else ''}"
    return Statement(f"{sql} LIMIT ? OFFSET ?", [*condition.values, part.count + 1, part.skip])


def _summed(value: str, type_: str) -> str:
    """Return what is added up for an average: a long decimal as a double, because the sum has at most 38 digits."""
    decimal_match = DECIMAL.fullmatch(type_)
    is_long = decimal_match is not None and int(decimal_match[1]) > _EXACT_DIGITS
    return f"CAST({value} AS DOUBLE)" if is_long else value


@dataclass(frozen=True)
class Rows:
    """The first rows of a result; ``has_more`` if it has others."""

    rows: list[Row]
    has_more: bool


@dataclass(frozen=True)
class Database:
    """Runs statements, each for at most ``seconds``, and as many at once as the machine has cores.

    ``connections`` are those that no statement uses; ``None`` is one that is not open yet. A page has at most
    ``page_bytes`` of JSON.
    """

    settings: Settings
    seconds: float
    page_bytes: int
    connections: LifoQueue[duckdb.DuckDBPyConnection | None]

    @classmethod
    def open(
        cls, settings: Settings, seconds: float, page_bytes: int = PAGE_MEGABYTES * MEGABYTE, count: int | None = None
    ) -> "Database":
        """Open a DuckDB that reads Delta tables, and later others: ``count``, by default one per core."""
        database = cls(settings, seconds, page_bytes, LifoQueue())
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        for _ in range((count or cores) - 1):
            database.connections.put(None)
        database.connections.put(database._connect())
        return database

    def fetch(self, statement: Statement, version: TableVersion) -> list[Row]:
        """Return the few rows of a statement that reads this version, by the names of its columns.

        Raises ``RequestError`` if its time is over (504), if files of the version are gone (410), if a value of the
        request does not fit (400), and if too many queries run, or memory does not suffice (503).
        """
        return self._run(statement, version, lambda cursor: [*_rows_of(cursor)])

    def fetch_page(self, statement: Statement, version: TableVersion, count: int) -> Rows:
        """Return the first rows of a statement: ``count``, or fewer if they would have more bytes than a page.

        Raises what ``fetch`` raises, and ``RequestError`` if the first row alone has more bytes (400).
        """

        def read_page(cursor: duckdb.DuckDBPyConnection) -> Rows:
            rows: list[Row] = []
            free_bytes = self.page_bytes
            for row in _rows_of(cursor):
                free_bytes -= len(to_json(json_ready(row)))
                if len(rows) == count or (rows and free_bytes < 0):
                    return Rows(rows, has_more=True)
                if free_bytes < 0:
                    raise self._large_row_error(version)
                rows.append(row)
            return Rows(rows, has_more=False)

        return self._run(statement, version, read_page)

    def _run(self, statement: Statement, version: TableVersion, read: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        connection = self._take_connection(version)
        cursor = connection.cursor()

        def read_rows() -> T:
            try:
                with cursor:
                    return _execute(cursor, statement, read)
            finally:  # a statement that was interrupted ends later
                self.connections.put(connection)

        try:
            return in_time(read_rows, self.seconds)
        except TimeoutError:
            cursor.interrupt()
            what = f"The query took longer than {self.seconds:g} seconds, and was interrupted"
            action = "Add a filter, or ask for fewer columns. lakehouse serve --time-limit sets the limit."
            raise RequestError(HTTPStatus.GATEWAY_TIMEOUT, what, where=str(version), action=action) from None
        except duckdb.Error as error:
            raise self._explain(error, version) from error

    def _take_connection(self, version: TableVersion) -> duckdb.DuckDBPyConnection:
        try:
            connection = self.connections.get(timeout=self.seconds)
        except Empty:
            what = f"Other queries ran for {self.seconds:g} seconds: no more run at once than the machine has cores"
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE, what, where=str(version), action="Try again later."
            ) from None
        try:
            return renew_secret(connection or self._connect(), self.settings.tables_root)
        except BaseException:
            self.connections.put(None)
            raise

    def _connect(self) -> duckdb.DuckDBPyConnection:
        """Open a DuckDB whose times are in UTC on every cursor, and whose memory is bounded; it spills what it can."""
        connection = connect(self.settings)
        run_statement(connection, "SET GLOBAL TimeZone = 'UTC'")
        run_statement(connection, "SET threads = 1")  # as many queries run as there are cores
        run_statement(connection, "SET preserve_insertion_order = false")  # each page has an order
        run_statement(connection, f"SET memory_limit = '{self._memory}B'")
        return connection

    @property
    def _memory(self) -> int:
        return max(_LEAST_MEMORY, _PAGES_IN_MEMORY * self.page_bytes)

    def _large_row_error(self, version: TableVersion) -> RequestError:
        what = f"A row has more than the {self.page_bytes / MEGABYTE:g} MB of a page"
        action = f"Ask for fewer columns with columns=. {_LARGER_PAGE}"
        return RequestError(HTTPStatus.BAD_REQUEST, what, where=str(version), action=action)

    def _explain(self, error: duckdb.Error, version: TableVersion) -> LakehouseError:
        if isinstance(error, duckdb.OutOfMemoryException):
            what = f"The query needs more than the {self._memory / MEGABYTE:,.0f} MB of memory that a query has"
            action = f"Ask for fewer columns or rows, or add a filter. {_LARGER_PAGE}"
            return RequestError(HTTPStatus.SERVICE_UNAVAILABLE, what, where=str(version), action=action)
        gone_files = missing_files(error, [version])
        if isinstance(gone_files, TableError):
            return RequestError(HTTPStatus.GONE, gone_files.what, where=gone_files.where, action=gone_files.action)
        reason = refusal(error, "Correct the request.")
        if isinstance(error, _OF_THE_REQUEST):
            return RequestError(HTTPStatus.BAD_REQUEST, reason.what, action=reason.action)
        if isinstance(error, _OF_THE_MACHINE):
            action = "Try again. If the error returns, look at the machine of the server and at its table store."
            return RequestError(HTTPStatus.SERVICE_UNAVAILABLE, reason.what, where=str(version), action=action)
        action = "To see if the table can be read: lakehouse doctor"
        return LakehouseError(reason.what, where=str(version), action=action)


def _execute(
    cursor: duckdb.DuckDBPyConnection, statement: Statement, read: Callable[[duckdb.DuckDBPyConnection], T]
) -> T:
    """Run a statement, a second time if its first rows do not fit into memory: a sort of all rows may use the disk."""
    try:
        return read(cursor.execute(statement.sql, list(statement.values)))
    except duckdb.OutOfMemoryException:
        cursor.execute("SET disabled_optimizers = 'top_n'")
        try:
            return read(cursor.execute(statement.sql, list(statement.values)))
        finally:
            cursor.execute("SET disabled_optimizers = ''")


def _rows_of(cursor: duckdb.DuckDBPyConnection) -> Iterator[Row]:
    names = [column[0] for column in cursor.description or ()]
    while (row := cursor.fetchone()) is not None:
        yield dict(zip(names, row, strict=True))
