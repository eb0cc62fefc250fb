"""Rows as the text that COPY of PostgreSQL reads, and the types that columns have there."""

from collections.abc import Callable, Iterator
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from lakehouse.query.connections import quoted_name
from lakehouse.sinks.changed_rows import SourceRows
from lakehouse.sinks.database_session import DatabaseSession, table_of
from lakehouse.sinks.fit_rows import BYTES, JSON, TEXTS, RowForm, TargetSql, Unfit, json_texts, map_values
from lakehouse.sinks.postgres_session import PostgresSession, own_table
from lakehouse.sinks.postgres_sql import PostgresSql

_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    **dict.fromkeys(TEXTS, "text"),
    **dict.fromkeys(BYTES, "bytea"),
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp without time zone",
    pa.timestamp("us", "UTC"): "timestamp with time zone",
}
_NUL_IN_JSON = r"(^|[^\\])(\\\\)*\\u0000"
_OPTIONS = csv.WriteOptions(include_header=False)


class _Stream:
    """A file for the writer of CSV."""

    closed = False

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def write(self, data: bytes) -> int:
        self._write(data)
        return len(data)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class PostgresRows(RowForm):
    """CSV, in which NULL is empty and an empty text has quotes."""

    def sql(self, source: SourceRows) -> PostgresSql:
        """The statements of the target, as the table is now; nested values become JSON."""
        table = table_of(source.sink)
        types = {name: _column_type(type_) for name, type_ in source.columns.items()}
        name = ".".join(map(quoted_name, table.full_name.split(".")))
        unfit = own_table(table, "lakehouse_unfit") if source.sink.unfit == "leave_out" else ""
        return PostgresSql(name, own_table(table), types, *source.identity, unfit)

    def convert(self, column: pa.Array) -> pa.Array:
        """Return bytes as PostgreSQL writes them, and nested values as JSON; other values are those of the column."""
        if column.type in BYTES:
            return map_values(column, pa.string(), lambda value: f"\\x{value.hex()}")
        if pa.types.is_nested(column.type):
            return json_texts(column)
        return column.cast(pa.string()) if column.type in TEXTS else column

    def find_unfit(self, column: pa.Array, key_type: str) -> Iterator[Unfit]:  # noqa: ARG002 - keys hold the same
        """Find texts with the character NUL, the only one that PostgreSQL does not store; in JSON it is an escape."""
        reason = "has the character NUL, which PostgreSQL cannot hold"
        if column.type == JSON:
            yield Unfit(pc.match_substring_regex(column, _NUL_IN_JSON), reason)
        if column.type == pa.string():
            yield Unfit(pc.match_substring(column, "\x00"), reason)

    def send(self, session: DatabaseSession, sql: TargetSql, table: str, batches: Iterator[pa.RecordBatch]) -> None:
        """Copy rows as CSV."""
        statement = sql.copy(table)
        with cast(PostgresSession, session).connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for batch in batches:
                csv.write_csv(batch, _Stream(copy.write), _OPTIONS)


def _column_type(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision},{type_.scale})"
    return _TYPES.get(type_, "jsonb")
