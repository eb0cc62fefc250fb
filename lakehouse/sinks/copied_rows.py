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
Arrays = dict[str, pa.Array]
UNFIT = "_unfit"
"""The column of the stage with the name of a column whose value cannot be held; NULL in other rows."""
_JSON = pa.large_string()  # only nested values have this type in the text that is written
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

    If ``UNFIT`` is one of them, a row that PostgreSQL cannot hold is written as one that is gone, with the name of a
    column that it cannot hold. Else ``TableError``, which names the row by its identity; also if it cannot hold that.
    """
    rows = gone_rows = 0
    for read_batch in batches:
        batch = _without_impossible(read_batch, identity)
        arrays = {name: _texts_of(batch.column(name)) for name in names if name != UNFIT}
        if UNFIT in names:
            arrays = _leave_out_unfit(arrays, batch, identity)
        _require_fit(arrays, batch.select([*identity]))
        csv.write_csv(pa.record_batch([arrays[name] for name in names], names=[*names]), _Stream(write), _OPTIONS)
        rows += len(batch)
        gone_rows += pc.sum(arrays.get(GONE, batch.column(GONE))).as_py() or 0
    return Copied(rows, gone_rows)


def _without_impossible(batch: pa.RecordBatch, identity: Sequence[str]) -> pa.RecordBatch:
    """Leave out rows that are gone, and that PostgreSQL never had, because their identity has the character NUL."""
    for name in identity if pc.any(batch.column(GONE)).as_py() else ():
        has_nul = _has_nul(_texts_of(batch.column(name)))
        batch = batch if has_nul is None else batch.filter(pc.invert(pc.and_(has_nul, batch.column(GONE))))
    return batch


def _leave_out_unfit(arrays: Arrays, batch: pa.RecordBatch, identity: Sequence[str]) -> Arrays:
    """Return the arrays with ``UNFIT``: unfit rows are gone, and have only their identity."""
    unfit = pa.nulls(len(batch), pa.string())
    for name, array in arrays.items():
        has_nul = _has_nul(array)
        if has_nul is not None and name not in identity and pc.any(has_nul).as_py():
            unfit = pc.if_else(has_nul, name, unfit)
    is_unfit, own_names = pc.is_valid(unfit), {*identity, GONE}
    if not pc.any(is_unfit).as_py():
        return {**arrays, UNFIT: unfit}
    blank = {name: pc.if_else(is_unfit, None, array) for name, array in arrays.items() if name not in own_names}
    return {**arrays, **blank, GONE: pc.or_(batch.column(GONE), is_unfit), UNFIT: unfit}


def _require_fit(arrays: Arrays, keys: pa.RecordBatch) -> None:
    """Raise ``TableError`` if a text has the character NUL, the only one that PostgreSQL does not store."""
    for name, array in arrays.items():
        has_nul = _has_nul(array)
        if has_nul is not None and pc.any(has_nul).as_py():
            (key,) = keys.filter(has_nul).slice(0, 1).to_pylist()
            place = ", ".join(f"{part}={value_text(value)}" for part, value in key.items())
            message = f"{name} of the row {place} has the character NUL, which PostgreSQL cannot hold"
            action = f"Leave {name} out with columns=, declare unfit='leave_out', or correct the row."
            raise TableError(message, action=action)


def _has_nul(column: pa.Array) -> pa.Array | None:
    """Whether each text has the character NUL, in JSON as an escape; ``None`` for other types."""
    if column.type == _JSON:
        return pc.fill_null(pc.match_substring_regex(column, _NUL_IN_JSON), fill_value=False)
    if column.type == pa.string():
        return pc.fill_null(pc.match_substring(column, "\x00"), fill_value=False)
    return None


def _texts_of(column: pa.Array) -> pa.Array:
    """Return bytes as PostgreSQL writes them, and nested values as JSON; other values are those of the column."""
    if _TYPES.get(column.type) == "bytea":
        return _map(column, lambda value: f"\\x{value.hex()}")
    if pa.types.is_nested(column.type):
        return _map(column, lambda value: json_line(value).rstrip()).cast(_JSON)
    return column.cast(pa.string()) if _TYPES.get(column.type) == "text" else column


def _map(column: pa.Array, text_of: Callable[[Any], str]) -> pa.Array:
    values = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else text_of(value) for value in values], pa.string())
