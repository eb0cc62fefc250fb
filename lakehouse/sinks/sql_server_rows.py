"""Rows as a bulk load of SQL Server takes them, and the types that columns have there."""

from collections.abc import Iterator
from datetime import date
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.sinks.changed_rows import SourceRows
from lakehouse.sinks.database_session import PROGRESS, DatabaseSession, bracketed, table_of
from lakehouse.sinks.fit_rows import BYTES, TEXTS, RowForm, TargetSql, Unfit, json_texts
from lakehouse.sinks.sql_server_session import SqlServerSession
from lakehouse.sinks.sql_server_sql import SqlServerSql

_TYPES = {
    pa.bool_(): "bit",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "float",
    **dict.fromkeys(TEXTS, "nvarchar(max)"),
    **dict.fromkeys(BYTES, "varbinary(max)"),
    pa.date32(): "date",
    pa.timestamp("us"): "datetime2(6)",
    pa.timestamp("us", "UTC"): "datetimeoffset(6)",
}
_KEY_BYTES = 800  # of the texts and bytes of a key; an index has 900, and other values need the rest
_EPOCH = date(1970, 1, 1).toordinal()
_LEAST = {pa.float32(): 2.0**-126, pa.float64(): 2.0**-1022}  # without a loss of digits
_TWO_UNITS = "[\U00010000-\U0010ffff]"


class SqlServerRows(RowForm):
    """The values of the columns."""

    def sql(self, source: SourceRows) -> SqlServerSql:
        """The statements of the target, as the table is now; nested values become JSON."""
        schema, _, name = table_of(source.sink).full_name.partition(".")
        types = {name: _column_type(type_) for name, type_ in source.columns.items()}
        key_bytes = _KEY_BYTES // max(1, sum("(max)" in types[name] for name in source.identity.columns))
        limits = {"nvarchar(max)": f"nvarchar({key_bytes // 2})", "varbinary(max)": f"varbinary({key_bytes})"}
        types |= {name: limits.get(types[name], types[name]) for name in source.identity.columns}
        tables = {key: f"{bracketed(schema)}.{bracketed(key)}" for key in (name, PROGRESS, "lakehouse_unfit")}
        unfit = tables["lakehouse_unfit"] if source.sink.unfit == "leave_out" else ""
        return SqlServerSql(tables[name], tables[PROGRESS], types, *source.identity, unfit)

    def convert(self, column: pa.Array) -> pa.Array:
        """Return nested values as JSON, and texts of one type; other values are those of the column."""
        if pa.types.is_nested(column.type):
            return json_texts(column)
        return column.cast(pa.string()) if column.type in TEXTS else column

    def find_unfit(self, column: pa.Array, key_type: str) -> Iterator[Unfit]:
        """Find numbers that are not finite, times out of range, and keys that an index cannot distinguish or hold."""
        if pa.types.is_floating(column.type):
            size = pc.abs(column)
            is_tiny = pc.and_(pc.less(size, _LEAST[column.type]), pc.not_equal(size, 0.0))
            reason = "is not finite, or too close to zero, which SQL Server cannot hold"
            yield Unfit(pc.or_(pc.invert(pc.is_finite(column)), is_tiny), reason)
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            yield Unfit(_is_out_of_range(column), "is not in the years 1 to 9999, which SQL Server cannot hold")
        limit = int("".join(filter(str.isdigit, key_type)) or 0)
        if key_type.startswith("nvarchar"):
            size = pc.add(pc.utf8_length(column), pc.count_substring_regex(column, _TWO_UNITS))
            yield Unfit(pc.greater(size, limit), f"is longer than {limit} characters, too long for a key in SQL Server")
            yield Unfit(pc.ends_with(column, " "), "ends with a space, which keys of SQL Server do not distinguish")
        if key_type.startswith("varbinary"):
            size = pc.binary_length(column)
            yield Unfit(pc.greater(size, limit), f"is longer than {limit} bytes, too long for a key in SQL Server")
            yield Unfit(pc.ends_with(column, b"\0"), "ends with a zero, which keys of SQL Server do not distinguish")

    def send(self, session: DatabaseSession, sql: TargetSql, table: str, batches: Iterator[pa.RecordBatch]) -> None:
        """Load rows."""
        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        types = cast(SqlServerSql, sql).types_of(table)
        cast(SqlServerSession, session).load(table_of(session.sink) if table == sql.name else None, types, rows)


def _is_out_of_range(column: pa.Array) -> pa.Array:
    """Whether a date or time is one that Python, too, does not have."""
    days = (date.min.toordinal() - _EPOCH, date.max.toordinal() + 1 - _EPOCH)
    first, end = (pa.scalar(day, pa.int32()).cast(pa.date32()).cast(column.type) for day in days)
    return pc.or_(pc.less(column, first), pc.greater_equal(column, end))


def _column_type(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _TYPES.get(type_, "nvarchar(max)")
