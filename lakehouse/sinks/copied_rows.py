"""Rows as the text that COPY of PostgreSQL reads, and the types that columns have there."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from lakehouse.errors import TableError
from lakehouse.exports.row_texts import json_line, value_text
from lakehouse.sinks.changed_rows import GONE

_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.large_string(): "text",
    pa.string_view(): "text",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
    pa.binary_view(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp without time zone",
    pa.timestamp("us", "UTC"): "timestamp with time zone",
}
_NUL_IN_JSON = r"(^|[^\\])(\\\\)*\\u0000"
_OPTIONS = csv.WriteOptions(include_header=False)


class Copied(NamedTuple):
    """How many rows were copied, and how many of them say that a row is gone."""

    rows: int
    gone_rows: int


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


def column_type(type_: pa.DataType) -> str:
    """Return the type of PostgreSQL that holds each value of a type; nested values become JSON."""
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision},{type_.scale})"
    return _TYPES.get(type_, "jsonb")


def copy_rows(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], identity: Sequence[str], write: Callable[[bytes], object]
) -> Copied:
    """Write the columns ``names`` of rows as CSV, in which NULL is empty and an empty text has quotes.

    Raises ``TableError``, which names the row by its identity, if PostgreSQL cannot hold a text.
    """
    rows = gone_rows = 0
    for read_batch in batches:
        batch = _without_impossible(read_batch, identity)
        keys = batch.select([*identity])
        arrays = [_texts_of(name, batch.column(name), keys) for name in names]
        csv.write_csv(pa.record_batch(arrays, names=[*names]), _Stream(write), _OPTIONS)
        rows += len(batch)
        gone_rows += pc.sum(batch.column(GONE)).as_py() or 0
    return Copied(rows, gone_rows)


def _without_impossible(batch: pa.RecordBatch, identity: Sequence[str]) -> pa.RecordBatch:
    """Leave out rows that are gone, and that PostgreSQL never had, because their identity has the character NUL."""
    for name in identity:
        if _TYPES.get(batch.column(name).type) == "text":
            has_nul = pc.fill_null(pc.match_substring(batch.column(name).cast(pa.string()), "\x00"), False)
            batch = batch.filter(pc.invert(pc.and_(has_nul, batch.column(GONE))))
    return batch


def _texts_of(name: str, column: pa.Array, keys: pa.RecordBatch) -> pa.Array:
    """Return bytes as PostgreSQL writes them, and nested values as JSON; other values are those of the column.

    Raises ``TableError`` if a text has the character NUL, the only one that PostgreSQL does not store.
    """
    if _TYPES.get(column.type) == "bytea":
        return _map(column, lambda value: f"\\x{value.hex()}")
    if pa.types.is_nested(column.type):
        texts = _map(column, lambda value: json_line(value).rstrip())
        _require_no_nul(name, pc.match_substring_regex(texts, _NUL_IN_JSON), keys)
        return texts
    if _TYPES.get(column.type) == "text":
        _require_no_nul(name, pc.match_substring(column.cast(pa.string()), "\x00"), keys)
    return column


def _map(column: pa.Array, text_of: Callable[[Any], str]) -> pa.Array:
    values = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else text_of(value) for value in values], pa.string())


def _require_no_nul(name: str, has_nul: pa.Array, keys: pa.RecordBatch) -> None:
    if pc.any(has_nul).as_py():
        (key,) = keys.filter(has_nul).slice(0, 1).to_pylist()
        place = ", ".join(f"{part}={value_text(value)}" for part, value in key.items())
        message = f"{name} of the row {place} has the character NUL, which PostgreSQL cannot hold"
        raise TableError(message, action=f"Leave {name} out with columns=, or correct the row.")
