"""The canonical text of a value: equal values of a database and of a Delta table have the same text.

``canonical_sql`` writes it in the SQL of PostgreSQL, ``canonical_text`` in Python. Both sides are compared by these
texts alone, and by hashes of them. Only pairs of types with texts that are known to be equal are compared.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.decoding.column_types import digits_of

BUCKETS = 1_048_576
"""Rows are divided into this many buckets by the hash of their key, so that some buckets fit into memory."""
Texts = tuple[str | None, ...]
_FIRST_DAY = date(1970, 1, 1)
_EPOCH_START, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_HASH_DIGITS = 15  # hexadecimal ones, so that a hash fits into a BIGINT
_MILLISECOND_PLACES = 3  # of a time that the connector sends in milliseconds, at most
_DAYS_OF_MONTH = "30.4375"  # as the connector counts them, a twelfth of 365.25


class DatabaseColumn(NamedTuple):
    """A column of the database: its quoted name, its type there, the length of a text, and the places of a time."""

    name: str
    type: str
    length: int | None
    places: int | None


def canonical_sql(column: DatabaseColumn, type_: str) -> str | None:
    """Return the SQL of the text of a column that is read as ``type_``; ``None`` if it cannot be compared."""
    declared_type = type_.partition("(")[0]
    make_sql = _SQL.get((declared_type, column.type))
    if make_sql is None and declared_type == "STRING" and column.type.endswith("range"):
        make_sql = _plain_sql
    return make_sql(column, type_) if make_sql else None


def _plain_sql(column: DatabaseColumn, _: str) -> str:
    return f"{column.name}::text"


def _bytes_sql(column: DatabaseColumn, _: str) -> str:
    return f"translate(encode({column.name}, 'base64'), E'\\n', '')"


def _hex_sql(column: DatabaseColumn, _: str) -> str:
    return f"encode({column.name}, 'hex')"


def _padded_sql(column: DatabaseColumn, _: str) -> str:
    return f"rpad({column.name}::text, {column.length})" if column.length else f"{column.name}::text"


def _address_sql(column: DatabaseColumn, _: str) -> str:
    return f"abbrev({column.name})"


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


def _microseconds_sql(column: DatabaseColumn, _: str) -> str:
    microseconds = f"(extract(epoch FROM {column.name})::numeric * 1000000)::bigint::text"
    return f"CASE WHEN isfinite({column.name}) THEN {microseconds} ELSE {column.name}::text END"


def _days_sql(column: DatabaseColumn, _: str) -> str:
    days = f"({column.name} - date '1970-01-01')::text"
    return f"CASE WHEN isfinite({column.name}) THEN {days} ELSE {column.name}::text END"


def _array_sql(column: DatabaseColumn, _: str) -> str:
    return f"array_to_json({column.name})::text"


MakeSql = Callable[[DatabaseColumn, str], str]
_TEXT_TYPES = ("text", "varchar", "uuid", "json", "jsonb", "xml", "cidr", "macaddr", "numeric", "citext", "enum")
_WHOLE_TYPES = ("int2", "int4", "int8")
_SQL: dict[tuple[str, str], MakeSql] = {
    **{("STRING", type_): _plain_sql for type_ in _TEXT_TYPES},
    **{(whole_type, type_): _plain_sql for whole_type in ("INT", "BIGINT") for type_ in _WHOLE_TYPES},
    **{("DECIMAL", type_): _decimal_sql for type_ in ("numeric", *_WHOLE_TYPES)},
    **{("DOUBLE", type_): _double_sql for type_ in ("float4", "float8")},
    **{("TIMESTAMP", type_): _microseconds_sql for type_ in ("timestamp", "timestamptz")},
    **{("ARRAY<STRING>", type_): _array_sql for type_ in ("_text", "_varchar")},
    **{("ARRAY<INT>", type_): _array_sql for type_ in ("_int2", "_int4")},
    ("STRING", "bytea"): _bytes_sql,
    ("BINARY", "bytea"): _hex_sql,
    ("STRING", "bpchar"): _padded_sql,
    ("STRING", "inet"): _address_sql,
    ("BOOLEAN", "bool"): _plain_sql,
    ("BIGINT", "time"): _time_sql,
    ("BIGINT", "interval"): _interval_sql,
    ("DATE", "date"): _days_sql,
    ("ARRAY<BIGINT>", "_int8"): _array_sql,
    ("ARRAY<BOOLEAN>", "_bool"): _array_sql,
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
