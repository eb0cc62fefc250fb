"""How much memory decoding takes: the bytes that records become, estimated before they are decoded.

Each estimate is an upper bound, apart from some bytes of each value. Pure and self-contained (the standard library
only).
"""

import re
import sys
from collections.abc import Iterable
from typing import Any

from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.json_texts import json_length
from lakehouse.decoding.record_parts import UNMAPPED, VALUE
from lakehouse.decoding.written_forms import becomes_json

TOO_LARGE = "too_large"  # the reason for a record that takes more
MAX_SLICE_MEMORY = 96 * 1000 * 1000  # bytes that records which are decoded together may become
MAX_RECORD_MEMORY = 280 * 1000 * 1000  # bytes that one record may become, since it cannot be split
MAX_UNPACKED_SIZE = 20 * 1000 * 1000  # bytes of a decompressed value: a text of four bytes for each, and its parts
JSON_MEMORY_PER_BYTE = 48  # upper bound, reached by lists that contain nothing but lists
LIST_SLOT, CONTAINER, MAP_ENTRY = 9, 96, 160  # of a list that grows; a list or map; an entry of a map, with its name
NUMBER, BYTES, TEXT = 32, 48, 72  # of such a value as a typed format reads it, without its own bytes
LOGICAL, UNREPRESENTABLE = 112, 160  # of a date, a time or a decimal at most, and of one that cannot be represented
_SMALL_RECORD = 2 * 1000 * 1000  # bytes of JSON below which a rough estimate is enough
_ROW, _CELL = 800, 100  # of a record's verdict, and of each column in it, as Python and Arrow hold them
_COPIES = 3  # of a column, while it is made, put together and sent
_OBJECTS = {"BOOLEAN": 0, "INT": 32, "BIGINT": 32, "DOUBLE": 24, "STRING": 0, "BINARY": 40}
_OBJECTS |= {"DATE": 32, "TIMESTAMP": 48}
_TEXT_COPIES, _JSON_GROWTH = 4, 2  # of a text that is made of pieces; of 1e-6, whose text is 0.000001
_SMALLEST_PAIR = 10  # bytes of an object with a name and a value in a record
_DECIMAL, _WIDTH = 104, 17  # of a decimal in Python; of the widest scalar value in Arrow
_STRING_PATTERN = rb'"(?:[^"\\]++|\\.)*+"?'  # possessive: linear time for any input
_STRING = re.compile(_STRING_PATTERN, re.DOTALL)
_PIECE = re.compile(rb'(?:[^"]++|' + _STRING_PATTERN + rb"){1,65536}+", re.DOTALL)


def dict_memory(count: int) -> int:
    """Bytes of a dict with this many names; the names themselves are shared."""
    return sys.getsizeof(dict.fromkeys(range(count)))


def scalar_memory(type_: str) -> int:
    """Bytes of a value of a scalar type."""
    return _OBJECTS.get(type_, _DECIMAL) + _WIDTH * _COPIES


def too_large_rejection() -> Rejection:
    """Return the rejection of a record that takes too much memory."""
    return Rejection(TOO_LARGE, f"decoding it takes more than {MAX_RECORD_MEMORY // 10**6} MB of memory")


class MemoryCounter:
    """``memory`` is the memory in bytes of the record that is being read, or that was read last."""

    memory = 0

    def add_memory(self, memory: int) -> None:
        """Count memory before it is used; one byte may describe so many records that no memory is large enough."""
        self.memory += memory
        if self.memory > MAX_RECORD_MEMORY:
            raise too_large_rejection()


def value_memory(raw: Any, field: Field) -> int:
    """Bytes that the value of a column takes in addition to its source; of a nested value, everything in it."""
    if becomes_json(field.form.written):
        entries_memory = len(raw) * _entry_memory(field) if field.inner and isinstance(raw, list) else 0
        return _TEXT_COPIES * json_length(raw, field) + entries_memory
    if isinstance(raw, str | bytes):
        return 2 * len(raw)
    return field.memory_bytes + _items_memory(raw, field) if field.inner else 0


def _items_memory(raw: Any, field: Field) -> int:
    """Bytes of the items of the arrays and maps in a value."""
    if field.type.startswith("STRUCT"):
        nested_values = (
            ((raw.get(inner.name), inner) for inner in field.inner if inner.inner) if isinstance(raw, dict) else ()
        )
        return sum(_items_memory(value, inner) for value, inner in nested_values)
    if not isinstance(raw, dict | list):
        return 0
    (item_field,) = field.inner
    memory = len(raw) * (item_field.memory_bytes + (LIST_SLOT if isinstance(raw, list) else MAP_ENTRY))
    if item_field.inner and memory <= MAX_RECORD_MEMORY:
        memory += sum(_items_memory(item, item_field) for item in (raw.values() if isinstance(raw, dict) else raw))
    return memory


def row_memory(fields: Iterable[Field]) -> int:
    """Bytes of a record's verdict and columns, without the items of arrays and maps in them."""
    return _ROW + sum(_CELL + (field.memory_bytes or scalar_memory(field.type)) for field in fields)


def column_memory_per_byte(fields: Iterable[Field], item_bytes: int) -> int:
    """Bytes in columns that one byte of a record's value becomes at most, if an item has at least ``item_bytes``.

    Columns that read the same field have one value each.
    """
    memory_by_name, rest_memory = dict[str, int](), 0
    for field in fields:
        if field.place.part == VALUE:
            for name in {field.place.names[0], *field.place.former[:1]}:
                memory_by_name[name] = memory_by_name.get(name, 0) + field_memory_per_byte(field, item_bytes)
        elif field.place.part == UNMAPPED:
            rest_memory = _TEXT_COPIES * _JSON_GROWTH
    return max(memory_by_name.values(), default=0) + rest_memory


def field_memory_per_byte(field: Field, item_bytes: int) -> int:
    """Bytes in the column of a field that one byte of its value becomes at most."""
    if becomes_json(field.form.written):
        entries_memory = _entry_memory(field) // _SMALLEST_PAIR + 1 if field.inner else 0
        return _TEXT_COPIES * _JSON_GROWTH + entries_memory
    if not field.inner:
        return 2 * (field.type in ("STRING", "BINARY"))
    inner_memory = max(field_memory_per_byte(inner, item_bytes) for inner in field.inner)
    if field.type.startswith("STRUCT"):
        return inner_memory
    return max(inner_memory, _entry_memory(field) // item_bytes + 1)


def _entry_memory(field: Field) -> int:
    """Bytes of an item of an array, or of an entry of a map."""
    return field.inner[0].memory_bytes + (LIST_SLOT if field.type.startswith("ARRAY") else MAP_ENTRY)


def json_memory(value: bytes) -> int:
    """Bytes that JSON becomes when it is parsed; the parts of a long value are counted."""
    if len(value) < _SMALL_RECORD:
        return len(value) * JSON_MEMORY_PER_BYTE
    bare = _without_strings(value)
    strings, lists, objects, names, commas, empty_lists = (
        bare.count(token) for token in (b'"', b"[", b"{", b":", b",", b"[]")
    )
    other_bytes = sum(map(bare.count, (b"]", b"}", b" ", b"\n", b"\r", b"\t"))) + 5 * bare.count(b"f")
    long_numbers = max(0, len(bare) - strings - lists - objects - names - commas - other_bytes) // 5
    first_names = min(objects, names)  # names that are the first of their object
    containers = (commas + lists + objects) * LIST_SLOT + (lists - empty_lists) * CONTAINER
    containers += empty_lists * 56 + objects * 64
    name_memory = first_names * 120 + (names - first_names) * 64
    return containers + name_memory + strings * 64 + long_numbers * (_DECIMAL + 8) + len(value)


def _without_strings(value: bytes) -> bytes:
    """JSON with a mark for each string in it, made piece by piece: all at once takes 160 bytes for each string."""
    return b"".join(_STRING.sub(b'"', piece.group()) for piece in _PIECE.finditer(value))
