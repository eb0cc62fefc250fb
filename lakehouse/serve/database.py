"""One DuckDB of the process: each statement has its own cursor, and is interrupted when its time is over."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import duckdb

from lakehouse.errors import LakehouseError, TableError
from lakehouse.errors.time_limit import in_time
from lakehouse.ledger.past_versions import TableVersion
from lakehouse.query.connections import connect, missing_files, refusal, run_statement
from lakehouse.serve.problems import RequestError
from lakehouse.serve.statements import Statement

_OF_THE_REQUEST = (duckdb.ConversionException, duckdb.OutOfRangeException)
_OF_THE_MACHINE = (duckdb.IOException, duckdb.OutOfMemoryException)


@dataclass(frozen=True)
class Database:
    """Runs statements, each for at most ``seconds``."""

    connection: duckdb.DuckDBPyConnection
    seconds: float

    @classmethod
    def open(cls, seconds: float) -> "Database":
        """Open a DuckDB that reads Delta tables, with its times in UTC on every cursor."""
        connection = connect()
        run_statement(connection, "SET GLOBAL TimeZone = 'UTC'")
        return cls(connection, seconds)

    def fetch(self, statement: Statement, version: TableVersion) -> list[dict[str, Any]]:
        """Return the rows of a statement that reads this version, by the names of its columns.

        Raises ``RequestError`` if its time is over (504), if files of the version are gone (410), and if a value of the
        request does not fit (400).
        """
        cursor = self.connection.cursor()

        def fetch_rows() -> list[dict[str, Any]]:
            with cursor:
                rows = cursor.execute(statement.sql, list(statement.values)).fetchall()
                names = [column[0] for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in rows]

        try:
            return in_time(fetch_rows, self.seconds)
        except TimeoutError:
            cursor.interrupt()
            what = f"The query took longer than {self.seconds:g} seconds, and was interrupted"
            action = "Add a filter, or ask for fewer columns. lakehouse serve --time-limit sets the limit."
            raise RequestError(HTTPStatus.GATEWAY_TIMEOUT, what, where=str(version), action=action) from None
        except duckdb.Error as error:
            raise _explain(error, version) from error


def _explain(error: duckdb.Error, version: TableVersion) -> LakehouseError:
    gone_files = missing_files(error, [version])
    if isinstance(gone_files, TableError):
        return RequestError(HTTPStatus.GONE, gone_files.what, where=gone_files.where, action=gone_files.action)
    reason = refusal(error, "Correct the request.")
    if isinstance(error, _OF_THE_REQUEST):
        return RequestError(HTTPStatus.BAD_REQUEST, reason.what, action=reason.action)
    if isinstance(error, _OF_THE_MACHINE):
        action = "Try again. If the error returns, look at the machine of the server and at its table store."
        return RequestError(HTTPStatus.SERVICE_UNAVAILABLE, reason.what, where=str(version), action=action)
    return LakehouseError(reason.what, where=str(version), action="To see if the table can be read: lakehouse doctor")
