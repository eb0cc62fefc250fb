"""The rows of a table in PostgreSQL, at one moment, without a lock: hashes of buckets, and rows of some buckets."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from lakehouse.declaration import Column, Computed, StreamTable
from lakehouse.decoding.record_parts import VALUE
from lakehouse.errors import LakehouseError, SetupError
from lakehouse.operations.canonical_rows import DatabaseColumn, Texts, bucket_sql, canonical_sql, row_sql
from lakehouse.settings.shapes import require_clear_database_url

_COLUMNS = (
    "SELECT column_name, CASE WHEN typtype = 'e' THEN 'enum' ELSE udt_name END, character_maximum_length,"
    " datetime_precision FROM information_schema.columns JOIN pg_type ON typname = udt_name"
    " JOIN pg_namespace ON pg_namespace.oid = typnamespace AND nspname = udt_schema"
    " WHERE table_schema = %s AND table_name = %s"
)
_SESSION = ("TimeZone = 'UTC'", "client_encoding = 'UTF8'", "extra_float_digits = 1")
_SECONDS_TO_CONNECT = 10
_ROWS_PER_FETCH = 10_000


@dataclass(frozen=True)
class ComparedColumns:
    """The columns that are compared, the key first, with their texts in SQL; and the names of the others."""

    key: tuple[str, ...]
    texts: Mapping[str, str]
    other_names: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the compared columns, the key first."""
        return tuple(self.texts)


@dataclass(frozen=True)
class SourceTable:
    """A table of a database, within a transaction that sees one moment."""

    connection: Any
    name: str
    columns: ComparedColumns

    def estimate_rows(self) -> int | None:
        """Return about how many rows the table has, by the statistics of the database; ``None`` if it has none."""
        query = "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(%s) AND reltuples > 0"
        row = self.connection.execute(query, [self.name]).fetchone()
        return row[0] if row else None

    def hashes(self) -> Iterator[tuple[int, int]]:
        """Yield the bucket and the hash of each row as the database computes them; none is kept in memory."""
        texts = list(self.columns.texts.values())
        bucket = bucket_sql(texts[: len(self.columns.key)])
        query = f"COPY (SELECT {bucket}, {row_sql(texts)} FROM {self.name}) TO STDOUT"  # a cursor reads in one process
        with self.connection.cursor() as cursor, cursor.copy(query) as copy:
            for bucket_text, hash_text in copy.rows():
                yield int(bucket_text), int(hash_text)

    def rows(self, buckets: Sequence[int]) -> Iterator[Texts]:
        """Yield the texts of the rows in some buckets; few are in memory at a time."""
        texts = list(self.columns.texts.values())
        bucket = bucket_sql(texts[: len(self.columns.key)])
        with self.connection.cursor("rows") as cursor:
            cursor.itersize = _ROWS_PER_FETCH
            query = f"SELECT {', '.join(texts)} FROM {self.name} WHERE {bucket} = ANY(".replace("%", "%%")
            cursor.execute(f"{query}%s)", [list(buckets)])
            yield from cursor


@contextmanager
def open_source(url: str, table: StreamTable, name: str, stored_names: Collection[str]) -> Iterator[SourceTable]:
    """Open a table of a database, as ``SCHEMA.TABLE``, in a transaction that reads one moment and locks no row.

    ``stored_names`` are the columns of the Delta table: only these are compared.

    Raises ``SetupError`` without the package psycopg, and ``LakehouseError`` if the database refuses, or if the table
    or a key column is missing.
    """
    psycopg = _driver()
    schema, _, table_name = name.rpartition(".")
    _require_readable(psycopg, url)
    try:
        with psycopg.connect(url, connect_timeout=_SECONDS_TO_CONNECT) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            for setting in _SESSION:
                connection.execute(f"SET LOCAL {setting}")
            found_columns = connection.execute(_COLUMNS, (schema or "public", table_name)).fetchall()
            columns = {row[0]: DatabaseColumn(_quoted(row[0]), *row[1:]) for row in found_columns}
            full_name = f"{_quoted(schema or 'public')}.{_quoted(table_name)}"
            yield SourceTable(connection, full_name, _compared_columns(table, columns, name, stored_names))
    except psycopg.Error as error:
        message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LakehouseError(
            f"The database refused: {_without_secrets(psycopg, url, message)}",
            where=f"table {name}",
            action="Correct the URL, or grant SELECT on the table to its user.",
        ) from None


def _compared_columns(
    table: StreamTable, columns: Mapping[str, DatabaseColumn], name: str, stored_names: Collection[str]
) -> ComparedColumns:
    """Return the columns that both tables have, the key first."""
    by_name = table.by_name
    ordered_columns = [by_name[key] for key in table.key] + [c for c in table.columns if c.name not in table.key]
    stored_columns = [column for column in ordered_columns if column.name in stored_names]
    texts = {column.name: text for column in stored_columns if (text := _text(column, columns)) is not None}
    missing_names = [key for key in table.key if key not in texts]
    if missing_names or not texts:
        wanted_names = ", ".join(missing_names or table.by_name)
        raise LakehouseError(
            f"The database has no table {name} with the column {wanted_names}"
            if not columns
            else f"The table {name} of the database has no column that can be compared with {wanted_names}",
            where=f"table {table.name}",
            action="Name the table with --source SCHEMA.TABLE.",
        )
    key = tuple(table.key) or tuple(texts)  # rows of a log table have none: they are compared as a whole
    return ComparedColumns(key, texts, tuple(c.name for c in table.columns if c.name not in texts))


def _text(column: Column | Computed, columns: Mapping[str, DatabaseColumn]) -> str | None:
    """Return the SQL of the text of a column; ``None`` if the declaration makes it differ from the database."""
    if isinstance(column, Computed) or column.field.part != VALUE:
        return None
    field = column.field
    names = [path[0] for path in (field.names, field.former) if len(path) == 1 and path[0] in columns]
    return None if not names else canonical_sql(columns[names[0]], column.type)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _require_readable(psycopg: ModuleType, url: str) -> None:
    """Refuse a URL that the driver cannot parse, with a message that quotes nothing of it."""
    try:
        psycopg.conninfo.conninfo_to_dict(url)
        require_clear_database_url(url)
    except (psycopg.Error, ValueError):
        action = "Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX: @ as %40."
        raise LakehouseError("The URL of the database cannot be read", action=action) from None


def _without_secrets(psycopg: ModuleType, url: str, message: str) -> str:
    """Return a message of the driver without the passwords of the URL, which it may quote."""
    parts = psycopg.conninfo.conninfo_to_dict(url)
    for secret in (parts[name] for name in ("password", "sslpassword") if parts.get(name)):
        message = message.replace(secret, "***")
    return message


def _driver() -> ModuleType:
    try:
        import psycopg.conninfo  # noqa: PLC0415 - an optional package
    except ImportError:
        raise SetupError(
            "The package psycopg is missing, which connects to PostgreSQL",
            action="Install it: pip install 'dagster-lakehouse[postgres]'.",
        ) from None
    return psycopg
