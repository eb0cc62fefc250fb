"""A transaction in a PostgreSQL database, under the lock of a target."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakehouse.declaration.sink import DatabaseTable, Sink
from lakehouse.errors import LockedError, TableError
from lakehouse.settings import Settings
from lakehouse.sinks.database_session import PATIENCE, PROGRESS, REFUSED_ACTION, DatabaseSession, table_of, url_of
from lakehouse.sinks.postgres_connection import connect_verified, hide_secrets, postgres_driver, require_readable_url

if TYPE_CHECKING:
    from psycopg import Connection

_SESSION = (
    f"SET LOCAL lock_timeout = '{PATIENCE}s'",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL client_encoding = 'UTF8'",
    "SET LOCAL extra_float_digits = 1",  # rows are compared by the text of their values
)
_EXIST = "SELECT to_regclass(%(name)s) IS NOT NULL, to_regclass(%(progress)s) IS NOT NULL"
_COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = to_regclass(%(name)s) AND attnum > 0 AND NOT attisdropped"
)


class PostgresSession(DatabaseSession):
    """A transaction in PostgreSQL."""

    def __init__(self, sink: Sink, connection: "Connection[Any]") -> None:
        super().__init__(sink)
        self.connection = connection

    def run(self, statement: str, values: Mapping[str, Any] | None = None) -> int:
        """Run a statement; return the number of rows that it wrote or deleted."""
        return self.connection.execute(statement.encode(), values).rowcount

    def rows(self, query: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.connection.execute(query.encode(), values).fetchall()

    def find_progress(self) -> tuple[bool, tuple[Any, ...] | None]:
        """Find whether the target exists, and its row of the progress."""
        target = table_of(self.sink)
        names = {"name": _quoted(*target.full_name.split(".")), "progress": own_table(target)}
        ((exists, has_progress),) = self.rows(_EXIST, names)
        place = names["progress"].replace("%", "%%")
        query = f"SELECT sink, table_id, version, commit_id, columns, identity FROM {place} WHERE target = %(target)s"
        rows = self.rows(query, {"target": target.full_name}) if has_progress else []
        return exists, next(iter(rows), None)

    def stored_types(self) -> Mapping[str, str]:
        """The columns that the target has now; none if it does not exist."""
        return dict(self.rows(_COLUMNS, {"name": _quoted(*table_of(self.sink).full_name.split("."))}))

    def progress_value(self, names: Iterable[str]) -> Any:
        """Return the names as an array."""
        return [*names]


@contextmanager
def open_postgres(settings: Settings, sink: Sink, *, locked: bool) -> Iterator[PostgresSession]:
    """Open a transaction in the database of a sink, which is committed at the end, or rolled back after an error.

    It holds the lock of the target, or if it is not to be ``locked`` sees one moment. Raises ``SettingsError`` if no
    setting names the database, ``SetupError`` without the package psycopg, ``LockedError`` if another run holds the
    lock for more than two minutes, and ``TableError`` if the database refuses or does not respond.
    """
    url, place = url_of(settings, sink), sink.to.place
    psycopg = postgres_driver()
    require_readable_url(psycopg, url)
    try:
        with connect_verified(psycopg, url) as connection:
            # after the lock, a run sees what the one before it committed, also if the server's default is stricter
            levels = psycopg.IsolationLevel
            connection.isolation_level = levels.READ_COMMITTED if locked else levels.REPEATABLE_READ
            connection.execute("; ".join(_SESSION).encode())
            if locked:
                lock_name = f"lakehouse {table_of(sink).full_name}"
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [lock_name])
            yield PostgresSession(sink, connection)
    except psycopg.errors.LockNotAvailable:
        message = f"Sink {sink.name} was locked for {PATIENCE} seconds: another transaction holds its target"
        raise LockedError(message, where=place, action="Run it again when that is done.") from None
    except psycopg.Error as error:
        message = f"Sink {sink.name}: the database refused: {hide_secrets(psycopg, url, error)}"
        raise TableError(message, where=place, action=REFUSED_ACTION) from None


def own_table(target: DatabaseTable, name: str = PROGRESS) -> str:
    """Return the quoted name of a table that sinks have in the schema of a target, by default that of the progress."""
    return _quoted(target.full_name.partition(".")[0], name)


def _quoted(*names: str) -> str:
    from psycopg.sql import Identifier  # noqa: PLC0415 - an optional package

    return Identifier(*names).as_string(None)
