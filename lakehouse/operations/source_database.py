"""The rows of a table in PostgreSQL, at one moment, without a lock, and the text that equal values have there and here.

``canonical_sql`` writes it in the SQL of PostgreSQL, ``canonical_text`` in Python. Both sides are compared by these
texts alone, and by hashes of them. Only pairs of types with texts that are known to be equal are compared.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.declaration import Column, Computed, StreamTable, TextBoolean, TextNumber
from lakehouse.decoding.column_types import digits_of
from lakehouse.decoding.fields import WHOLE_LIMITS
from lakehouse.decoding.record_parts import VALUE
from lakehouse.errors import LakehouseError
from lakehouse.query.connections import quoted_name
from lakehouse.sinks.postgres_connection import (
    SECONDS_TO_CONNECT,
    hide_secrets,
    postgres_driver,
    require_readable_url,
)

BUCKETS = 1_048_576
"""Rows are divided into this many buckets by the hash of their key, so that some buckets fit into memory."""
Texts = tuple[str | None, ...]
_FIRST_DAY = date(1970, 1, 1)
_EPOCH_START, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_HASH_DIGITS = 15  # hexadecimal ones, so that a hash fits into a BIGINT
_MILLISECOND_PLACES = 3  # of a time that the connector sends in milliseconds, at most
_DAYS_OF_MONTH = "30.4375"  # as the connector counts them, a twelfth of 365.25
_COLUMNS = (
    "SELECT column_name, CASE WHEN typtype = 'e' THEN 'enum' ELSE udt_name END, character_maximum_length,"
    " datetime_precision FROM information_schema.columns JOIN pg_type ON typname = udt_name"
    " JOIN pg_namespace ON pg_namespace.oid = typnamespace AND nspname = udt_schema"
    " WHERE table_schema = %s AND table_name = %s"
)
_SESSION = ("TimeZone = 'UTC'", "client_encoding = 'UTF8'", "extra_float_digits = 1")
_ROWS_PER_FETCH = 10_000


class DatabaseColumn(NamedTuple):
    """A column of the database: its quoted name, its type there, the length of a text, and the places of a time."""

    name: str
    type: str
    length: int | None
    places: int | None


def canonical_sql(column: DatabaseColumn, type_: str) -> str | None:
    """Return the SQL of the text of a column that is read as ``type_``; ``None`` if it cannot be compared."""
    declared_type = type_.partition("(")[0]
    sql = _SQL.get((declared_type, column.type))
    if sql is None and declared_type == "STRING" and column.type.endswith("range"):
        sql = _PLAIN
    return sql(column, type_) if callable(sql) else sql and sql.format(column.name)


def _padded_sql(column: DatabaseColumn, _: str) -> str:
    return f"rpad({column.name}::text, {column.length})" if column.length else f"{column.name}::text"


def _decimal_sql(column: DatabaseColumn, type_: str) -> str:
    return f"round({column.name}::numeric, {digits_of(type_)[1]})::text"


def _double_sql(column: DatabaseColumn, _: str) -> str:
    value = f"{column.name}::text::float8" if column.type == "float4" else f"{column.name}::float8"
    return f"encode(float8send(CASE WHEN {value} = 0 THEN 0 ELSE {value} END), 'hex')"


def _time_sql(column: DatabaseColumn, _: str) -> str:
    is_short = column.places is not None and column.places <= _MILLISECOND_PLACES
    return f"(extract(epoch FROM {column.name})::numeric * {1_000 if is_short else 1_000_000})::bigint::text"


def _interval_sql(column: DatabaseColumn, _: str) -> str:
    parts = {
        part: f"extract({part} FROM {column.name})::numeric" for part in ("year", "month", "day", "hour", "minute")
    }
    days = f"(({parts['year']} * 12 + {parts['month']}) * {_DAYS_OF_MONTH} + {parts['day']})"
    minutes = f"(({days} * 24 + {parts['hour']}) * 60 + {parts['minute']})"
    return f"round({minutes} * 60000000 + extract(microsecond FROM {column.name})::numeric)::bigint::text"


MakeSql = Callable[[DatabaseColumn, str], str]
_PLAIN, _ARRAY = "{0}::text", "array_to_json({0})::text"
_MICROSECONDS = (
    "CASE WHEN isfinite({0}) THEN (extract(epoch FROM {0})::numeric * 1000000)::bigint::text ELSE {0}::text END"
)
_TEXT_TYPES = ("text", "varchar", "uuid", "json", "jsonb", "xml", "cidr", "macaddr", "numeric", "citext", "enum")
_WHOLE_TYPES = ("int2", "int4", "int8")
_WORDS, _NUMBER = ("true", "false"), r"'^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?$'"
_SQL: dict[tuple[str, str], MakeSql | str] = {  # a text has the column in place of {0}
    **{("STRING", type_): _PLAIN for type_ in _TEXT_TYPES},
    **{(whole_type, type_): _PLAIN for whole_type in ("INT", "BIGINT") for type_ in _WHOLE_TYPES},
    **{("DECIMAL", type_): _decimal_sql for type_ in ("numeric", *_WHOLE_TYPES)},
    **{("DOUBLE", type_): _double_sql for type_ in ("float4", "float8")},
    **{("TIMESTAMP", type_): _MICROSECONDS for type_ in ("timestamp", "timestamptz")},
    **{("ARRAY<STRING>", type_): _ARRAY for type_ in ("_text", "_varchar")},
    **{("ARRAY<INT>", type_): _ARRAY for type_ in ("_int2", "_int4")},
    ("STRING", "bytea"): "translate(encode({0}, 'base64'), E'\\n', '')",
    ("BINARY", "bytea"): "encode({0}, 'hex')",
    ("STRING", "bpchar"): _padded_sql,
    ("STRING", "inet"): "abbrev({0})",
    ("BOOLEAN", "bool"): _PLAIN,
    ("BIGINT", "time"): _time_sql,
    ("BIGINT", "interval"): _interval_sql,
    ("DATE", "date"): "CASE WHEN isfinite({0}) THEN ({0} - date '1970-01-01')::text ELSE {0}::text END",
    ("ARRAY<BIGINT>", "_int8"): _ARRAY,
    ("ARRAY<BOOLEAN>", "_bool"): _ARRAY,
}


def canonical_text(value: Any) -> str | None:
    """Return the text of a value of a Delta table; ``None`` for NULL."""
    if value is None or isinstance(value, str):
        return value
    return _TEXT[type(value)](value) if type(value) in _TEXT else str(value)


def _microseconds_text(time: datetime) -> str:
    aware_time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return str((aware_time - _EPOCH_START) // _MICROSECOND)


_TEXT: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    float: lambda value: struct.pack(">d", value + 0.0).hex(),
    Decimal: lambda value: f"{value:f}",
    datetime: _microseconds_text,
    date: lambda value: str((value - _FIRST_DAY).days),
    bytes: bytes.hex,
    list: lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
}


def row_sql(texts: Sequence[str]) -> str:
    """Return the SQL of the hash of a row with these texts, a BIGINT."""
    joined_text = " || ".join(f"coalesce(length({text}) || ':' || {text}, '-')" for text in texts)
    digest = f"md5(convert_to({joined_text}, 'UTF8'))"
    return f"('x' || left({digest}, {_HASH_DIGITS}))::bit({_HASH_DIGITS * 4})::bigint"


def bucket_sql(key_texts: Sequence[str]) -> str:
    """Return the SQL of the bucket of a row whose key has these texts."""
    return f"mod({row_sql(key_texts)}, {BUCKETS})"


def row_hash(texts: Sequence[str | None]) -> int:
    """Return the hash of a row, as ``row_sql`` does."""
    joined_text = "".join("-" if text is None else f"{len(text)}:{text}" for text in texts)
    return int(hashlib.md5(joined_text.encode(), usedforsecurity=False).hexdigest()[:_HASH_DIGITS], 16)


def bucket_of(key_texts: Sequence[str | None]) -> int:
    """Return the bucket of a row, as ``bucket_sql`` does."""
    return row_hash(key_texts) % BUCKETS


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
    psycopg = postgres_driver()
    schema, _, table_name = name.rpartition(".")
    require_readable_url(psycopg, url)
    try:
        with psycopg.connect(url, connect_timeout=SECONDS_TO_CONNECT) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            for setting in _SESSION:
                connection.execute(f"SET LOCAL {setting}")
            found_columns = connection.execute(_COLUMNS, (schema or "public", table_name)).fetchall()
            columns = {row[0]: DatabaseColumn(quoted_name(row[0]), *row[1:]) for row in found_columns}
            full_name = f"{quoted_name(schema or 'public')}.{quoted_name(table_name)}"
            yield SourceTable(connection, full_name, _compared_columns(table, columns, name, stored_names))
    except psycopg.Error as error:
        raise LakehouseError(
            f"The database refused: {hide_secrets(psycopg, url, error)}",
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
    if isinstance(column, Computed) or column.field.place.part != VALUE:
        return None
    field = column.field
    names = [path[0] for path in (field.place.names, field.place.former) if len(path) == 1 and path[0] in columns]
    database_column = columns[names[0]] if names else None
    return database_column and (_written_sql(database_column, column) or canonical_sql(database_column, column.type))


def _written_sql(database_column: DatabaseColumn, column: Column) -> str | None:
    """Return the SQL of the text of a column that reads another form; a value without that form stays as it is."""
    text, form = f"{database_column.name}::text", column.form
    if isinstance(form, TextBoolean):
        lists = (", ".join(map(_literal, values)) for values in (form.true, form.false))
        cases = " ".join(f"WHEN {text} IN ({values}) THEN '{word}'" for values, word in zip(lists, _WORDS, strict=True))
        return f"CASE {cases} ELSE {text} END"
    is_text = database_column.type in ("text", "varchar") and column.type.startswith(("DECIMAL", *WHOLE_LIMITS))
    if not isinstance(form, TextNumber) or form.trailing_sign or not is_text:
        return None
    number = text
    for mark in filter(None, (form.prefix, form.suffix, form.thousands)):
        number = f"replace({number}, {_literal(mark)}, '')"
    number = f"replace({number}, {_literal(form.decimal)}, '.')"
    places = digits_of(column.type)[1] if column.type.startswith("DECIMAL") else 0
    return f"CASE WHEN {number} ~ {_NUMBER} THEN round({number}::numeric, {places})::text ELSE {text} END"


def _literal(value: Any) -> str:
    text = str(canonical_text(value)).replace("'", "''")
    return f"'{text}'"
