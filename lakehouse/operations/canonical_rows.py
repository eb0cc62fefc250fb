"""The canonical text of a value: equal values of a database and of a Delta table have the same text.

``canonical_sql`` writes it in the SQL of PostgreSQL, ``canonical_text`` in Python. Both sides are compared by these
texts alone, and by hashes of them.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.decoding.column_types import digits_of

BUCKETS = 4_096
"""Rows are divided into this many buckets by the hash of their key."""
Texts = tuple[str | None, ...]
_FIRST_DAY = date(1970, 1, 1)
_EPOCH_START, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_NESTED_TYPES = ("ARRAY<STRING>", "ARRAY<INT>", "ARRAY<BIGINT>", "ARRAY<BOOLEAN>")
_HASH_DIGITS = 15  # hexadecimal ones, so that a hash fits into a BIGINT


class DatabaseColumn(NamedTuple):
    """A column of the database: its quoted name, its type there, and the length of a text that is padded."""

    name: str
    type: str
    length: int | None


def canonical_sql(column: DatabaseColumn, type_: str) -> str | None:
    """Return the SQL of the text of a column that is read as ``type_``; ``None`` if it cannot be compared."""
    if type_.startswith("DECIMAL"):
        return f"round({column.name}::numeric, {digits_of(type_)[1]})::text"
    if type_ in _NESTED_TYPES:
        return f"array_to_json({column.name})::text"
    make_sql = _SQL.get(type_)
    return make_sql(column) if make_sql else None


def _text_sql(column: DatabaseColumn) -> str:
    texts = {
        "bytea": f"translate(encode({column.name}, 'base64'), E'\\n', '')",
        "bpchar": f"rpad({column.name}::text, {column.length or 1})",
        "inet": f"abbrev({column.name})",
    }
    return texts.get(column.type, f"{column.name}::text")


def _whole_sql(column: DatabaseColumn) -> str:
    is_time = column.type in ("time", "timetz", "interval", "timestamp", "timestamptz")
    return _microseconds_sql(column) if is_time else f"{column.name}::numeric::text"


def _double_sql(column: DatabaseColumn) -> str:
    value = f"{column.name}::text::float8"
    return f"encode(float8send(CASE WHEN {value} = 0 THEN 0 ELSE {value} END), 'hex')"


def _microseconds_sql(column: DatabaseColumn) -> str:
    return f"(extract(epoch FROM {column.name}) * 1000000)::bigint::text"


def _days_sql(column: DatabaseColumn) -> str:
    return f"({column.name}::date - date '1970-01-01')::text"


_SQL: dict[str, Callable[[DatabaseColumn], str]] = {
    "STRING": _text_sql,
    "BOOLEAN": lambda column: f"{column.name}::text",
    "INT": _whole_sql,
    "BIGINT": _whole_sql,
    "DOUBLE": _double_sql,
    "DATE": _days_sql,
    "TIMESTAMP": _microseconds_sql,
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
    list: lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
}


def row_sql(texts: Sequence[str]) -> str:
    """Return the SQL of the hash of a row with these texts, a BIGINT."""
    return f"('x' || left({_digest_sql(texts)}, {_HASH_DIGITS}))::bit({_HASH_DIGITS * 4})::bigint"


def bucket_sql(key_texts: Sequence[str]) -> str:
    """Return the SQL of the bucket of a row whose key has these texts."""
    return f"mod({row_sql(key_texts)}, {BUCKETS})"


def row_hash(texts: Sequence[str | None]) -> int:
    """Return the hash of a row, as ``row_sql`` does."""
    joined_text = "\x1f".join("\x02" if text is None else f"\x01{text}" for text in texts)
    return int(hashlib.md5(joined_text.encode(), usedforsecurity=False).hexdigest()[:_HASH_DIGITS], 16)


def bucket_of(key_texts: Sequence[str | None]) -> int:
    """Return the bucket of a row, as ``bucket_sql`` does."""
    return row_hash(key_texts) % BUCKETS


def _digest_sql(texts: Sequence[str]) -> str:
    parts = ", ".join(f"coalesce(chr(1) || {text}, chr(2))" for text in texts)
    return f"md5(concat_ws(chr(31), {parts}))"
