"""How much memory decoding takes: bytes that are made of the bytes of records, before they are made.

What is told is an upper bound, some bytes of each value aside. Pure and self-contained (the standard library only).
"""

import re
import sys
from collections.abc import Iterable
from typing import Any

from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.record_parts import VALUE

MOST_AT_ONCE = 96 * 1000 * 1000  # bytes made of records that are decoded together
MOST_OF_ONE = 280 * 1000 * 1000  # bytes made of one record, which nothing can cut
JSON_BYTE = 48  # bytes that one of JSON becomes at most, as where lists hold nothing but lists
SLOT, LIST, ENTRY = 9, 96, 160  # of a list that grows; a list; an entry of a map, with its name
_LITTLE = 2 * 1000 * 1000  # bytes of JSON of which nothing need be counted
_ROW, _CELL = 800, 100  # of a record that may enter or not, and of a column in it, as the strict rules have them
_COPIES = 3  # of a column, while it is made, put together and sent
_OBJECTS = {"BOOLEAN": 0, "INT": 32, "BIGINT": 32, "DOUBLE": 24, "STRING": 0, "DATE": 32, "TIMESTAMP": 48}
_DECIMAL, _WIDTH = 104, 17  # of a decimal as Python has it; of the widest plain value in Arrow
_TEXT_WRITTEN = rb'"(?:[^"\\]++|\\.)*+"?'  # in one pass, whatever follows
_TEXT = re.compile(_TEXT_WRITTEN, re.DOTALL)
_PIECE = re.compile(rb'(?:[^"]++|' + _TEXT_WRITTEN + rb"){1,65536}+", re.DOTALL)


def dict_of(count: int) -> int:
    """Bytes of a dict of so many names, which others hold too."""
    return sys.getsizeof(dict.fromkeys(range(count)))


def plain_room(type_: str) -> int:
    """Bytes of a value that holds no others."""
    return _OBJECTS.get(type_, _DECIMAL) + _WIDTH * _COPIES


def too_large() -> Rejection:
    """What rejects a record that takes more than one may."""
    return Rejection("too_large", f"it takes more than {MOST_OF_ONE // 10**6} MB of memory to decode it")


def room_of(raw: Any, field: Field) -> int:
    """Bytes that the value of a column takes beside what it is made from: of what it holds, all."""
    if isinstance(raw, str):
        return 2 * len(raw)
    return field.room + _items_in(raw, field) if field.inner else 0


def _items_in(raw: Any, field: Field) -> int:
    """Bytes of the items of the arrays and maps in a value."""
    if field.type.startswith("STRUCT"):
        held = ((raw.get(each.name), each) for each in field.inner if each.inner) if isinstance(raw, dict) else ()
        return sum(_items_in(value, each) for value, each in held)
    if not isinstance(raw, dict | list):
        return 0
    (item,) = field.inner
    room = len(raw) * (item.room + (SLOT if isinstance(raw, list) else ENTRY))
    if item.inner and room <= MOST_OF_ONE:
        room += sum(_items_in(each, item) for each in (raw.values() if isinstance(raw, dict) else raw))
    return room


def room_of_row(fields: Iterable[Field]) -> int:
    """Bytes of a record's verdict and columns, but for the items of arrays and maps in them."""
    return _ROW + sum(_CELL + (field.room or plain_room(field.type)) for field in fields)


def room_by_byte(fields: Iterable[Field], least: int) -> int:
    """Bytes that one of a record's value becomes at most in columns, where an item takes so many bytes at least.

    Columns that take their values from the same field each have their own.
    """
    named: dict[str, int] = {}
    for field in fields:
        if field.part == VALUE:
            for name in {field.names[0], *field.former[:1]}:
                named[name] = named.get(name, 0) + _by_byte(field, least)
    return max(named.values(), default=0)


def _by_byte(field: Field, least: int) -> int:
    if not field.inner:
        return 2 * (field.type == "STRING")
    within = max(_by_byte(each, least) for each in field.inner)
    if field.type.startswith("STRUCT"):
        return within
    (item,) = field.inner
    return max(within, (item.room + (SLOT if field.type.startswith("ARRAY") else ENTRY)) // least + 1)


def json_room(written: bytes) -> int:
    """Bytes that JSON becomes when it is parsed: of much of it, what stands in it is counted."""
    if len(written) < _LITTLE:
        return len(written) * JSON_BYTE
    bare = _without_texts(written)
    texts, lists, objects, names, commas, empty = (bare.count(each) for each in (b'"', b"[", b"{", b":", b",", b"[]"))
    others = sum(map(bare.count, (b"]", b"}", b" ", b"\n", b"\r", b"\t"))) + 5 * bare.count(b"f")
    long_numbers = max(0, len(bare) - texts - lists - objects - names - commas - others) // 5
    alone = min(objects, names)  # names that are the first of their object
    held = (commas + lists + objects) * SLOT + (lists - empty) * LIST + empty * 56 + objects * 64
    return held + alone * 120 + (names - alone) * 64 + texts * 64 + long_numbers * (_DECIMAL + 8) + len(written)


def _without_texts(written: bytes) -> bytes:
    """JSON with a mark for each text in it, made piece by piece: all at once takes 160 bytes for each text."""
    return b"".join(_TEXT.sub(b'"', piece.group()) for piece in _PIECE.finditer(written))
