"""Changes of rows as JSON lines for Azure Data Explorer, in parts, and the types that columns have there."""

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import md5
from typing import NamedTuple

import pyarrow as pa

from lakehouse.errors import TableError
from lakehouse.sinks.changed_rows import SourceRows
from lakehouse.sinks.data_explorer_kql import OWN_COLUMNS, Range, nullable_columns
from lakehouse.sinks.topic import Change, changes_of

_DIGITS = 34  # of a decimal
_MAX_BYTES = 1 << 20  # of a value: the service cuts a longer text, and replaces other values by NULL
_TYPES = {pa.bool_(): "bool", pa.int64(): "long", pa.float32(): "real", pa.float64(): "real", pa.date32(): "datetime"}
_TYPES |= dict.fromkeys((pa.int8(), pa.int16(), pa.int32()), "int")
_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
_TYPES |= dict.fromkeys(_TEXTS, "string")
_NOT_FINITE = re.compile(rb'"(NaN|-?Infinity)"')


class Part(NamedTuple):
    """Changes of a range as JSON lines: how many of them write a row, and how many delete one."""

    lines: bytes
    written: int
    deleted: int


def column_types(source: SourceRows) -> dict[str, str]:
    """Return the columns of the target with their types. ``TableError`` if a type does not hold each value."""
    types = {}
    for name, type_ in source.columns.items():
        is_decimal = pa.types.is_decimal(type_)
        if is_decimal and type_.precision > _DIGITS:
            message = f"Sink {source.sink.name}: {name} has {type_.precision} digits, and Data Explorer holds {_DIGITS}"
            raise TableError(message, action=f"Leave {name} out with columns=.")
        other_type = "decimal" if is_decimal else "datetime" if pa.types.is_timestamp(type_) else "dynamic"
        types[name] = _TYPES.get(type_, other_type)
    return {**types, **OWN_COLUMNS}


def columns_text(source: SourceRows) -> str:
    """Return what another run has to have equal, so that its rows are the same: columns, types and identity."""
    return json.dumps([column_types(source), source.identity.columns])


def read_parts(source: SourceRows, range_: Range) -> Iterator[Part]:
    """Yield the changes of a range; ``source`` is the table as of its version.

    The order of the changes, and where a part ends, are the same in each attempt. They have to be: the service skips a
    part if it has one of that tag, so a change that moved into another part would be lost, or there twice.
    """
    reals = [name for name, type_ in source.columns.items() if pa.types.is_floating(type_)]
    nullable = nullable_columns(column_types(source))
    lines: list[bytes] = []
    size = deleted = 0
    with source.open(range_.since, each_version=True) as batches:
        for change in changes_of(batches, source):
            _require_fit(change, reals)
            lines.append(_line(change, range_.version, nullable))
            size, deleted = size + len(lines[-1]), deleted + (change.value is None)
            if size >= range_.part_bytes:
                yield Part(b"".join(lines), len(lines) - deleted, deleted)
                lines, size, deleted = [], 0, 0
    if lines:
        yield Part(b"".join(lines), len(lines) - deleted, deleted)


def _line(change: Change, newest_version: int, nullable: Iterable[str]) -> bytes:
    value = change.value
    own = {
        "_key": change.key.decode(),
        "_digest": "" if value is None else md5(value, usedforsecurity=False).hexdigest(),
        "_version": newest_version if change.version is None else change.version,
        "_is_deleted": value is None,
    }
    if value is not None:
        row = json.loads(value)
        own["_nulls"] = sum(row[name] is None for name in nullable)
    return (
        (change.key if value is None else value)[:-1] + b"," + json.dumps(own, ensure_ascii=False)[1:].encode() + b"\n"
    )


def _require_fit(change: Change, reals: Iterable[str]) -> None:
    """Raise ``TableError`` if the service would not hold a value of a row as it is."""
    row = change.key if change.value is None else change.value
    if len(row) <= _MAX_BYTES and not _NOT_FINITE.search(row):
        return
    for name, value in {**json.loads(row), "_key": change.key.decode()}.items():
        is_number = name in reals and isinstance(value, str)
        if is_number or len((value if isinstance(value, str) else json.dumps(value)).encode()) > _MAX_BYTES:
            fact = f"is {value}" if is_number else "has more than 1 MB"
            place = change.key.decode()[:200]
            message = f"{name} of the row {place} {fact}, which Data Explorer cannot hold"
            raise TableError(message, action=f"Leave {name} out with columns=, or correct the row.")
