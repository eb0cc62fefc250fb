"""Avro, read strictly: the bytes of a record by the schema it was written with, as values of fields by their names.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's
executors. A schema is as ``avro_schemas`` makes it: every name in full, what it refers to before it.
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakehouse.decoding.fields import Beyond, Rejection
from lakehouse.decoding.formats.avro_bytes import (
    cut,
    read_boolean,
    read_bytes,
    read_double,
    read_float,
    read_int,
    read_long,
    read_null,
    read_string,
)
from lakehouse.decoding.formats.avro_logical import as_meant
from lakehouse.decoding.formats.avro_nodes import Named, Node, Read, spend
from lakehouse.decoding.formats.format import WriterSchema
from lakehouse.decoding.memory import ENTRY, LIST, MOST_OF_ONE, SLOT, dict_of, too_large

Reader = Callable[[bytes, int], dict[str, Any]]
"""Read the record that begins at a place and ends with the bytes."""
_MOST_EMPTY = 16  # values of no byte in one record
_MOST_AROUND = 16  # records around one value, each of which takes no byte of its own
_NUMBER, _BYTES, _STRING = 32, 48, 72  # bytes of memory of such a value, its own bytes aside
_MEANT, _BEYOND = 112, 160  # of a day, a moment or a decimal at most, and of one beyond any


def reader_of(schema: WriterSchema, named: Named | None = None) -> Reader:
    """Return what reads records of that schema, whose bytes begin at a place; ``named`` counts what the newest takes.

    It raises ``Rejection`` with one of the reasons ``truncated``, ``trailing_bytes``, ``invalid_utf8``,
    ``invalid_avro`` and ``too_large``; making it raises one with ``unusable_schema`` where no record of that schema
    can be read.
    """
    counted = Named() if named is None else named
    for each in schema.references:
        _node(json.loads(each), counted)
    root = json.loads(schema.text)
    if not isinstance(root, dict) or root.get("type") != "record":
        raise Rejection("unusable_schema", "it is the schema of no record")
    read = _node(root, counted).read

    def read_record(written: bytes, start: int) -> dict[str, Any]:
        counted.made = 0
        try:
            value, end = read(written, start)
        except (IndexError, struct.error):
            raise Rejection("truncated", f"the record ends after {len(written)} bytes, within a value") from None
        except RecursionError:
            raise Rejection("invalid_avro", "nested too deeply") from None
        if end != len(written):
            raise Rejection("trailing_bytes", f"{len(written) - end} bytes follow the record")
        found: dict[str, Any] = value
        return found

    return read_record


def _node(schema: Any, named: Named) -> Node:
    """What follows from a schema for its values."""
    if isinstance(schema, str):
        return _PLAIN.get(schema) or _by_name(schema, named)
    if isinstance(schema, list):
        return _union([_node(each, named) for each in schema])
    kind = schema["type"]
    if isinstance(kind, str) and kind in _COMPOSED:
        return _COMPOSED[kind](schema, named)
    return _meant(schema, _node(kind, named), named)


def _by_name(name: str, named: Named) -> Node:
    """What follows from a named schema; it may stand within itself."""
    if name not in named:
        raise Rejection("unusable_schema", f"it refers to {name}, which it does not hold")
    return named[name]


def _meant(schema: Mapping[str, Any], node: Node, named: Named) -> Node:
    """What is written in another type than it means."""
    mean = as_meant(schema)
    if mean is None:
        return node
    read = node.read

    def read_meant(written: bytes, at: int) -> tuple[Any, int]:
        value, at = read(written, at)
        meant = mean(value)
        if type(meant) is Beyond:
            spend(named, _BEYOND)
        return meant, at

    return node._replace(read=read_meant, room=_MEANT)


def _record(schema: Mapping[str, Any], named: Named) -> Node:
    fields: list[tuple[str, Read]] = []
    room = 0

    def read(written: bytes, at: int) -> tuple[Any, int]:
        named.made += room
        if named.made > MOST_OF_ONE:
            raise too_large()
        found = {}
        for name, field in fields:
            found[name], at = field(written, at)
        return found, at

    named[schema["name"]] = Node(read)
    nodes = {_text(each["name"]): _node(each["type"], named) for each in schema["fields"]}
    if len(nodes) < len(schema["fields"]):
        raise Rejection("unusable_schema", "a record in it has two fields of one name")
    taking = [node for node in nodes.values() if node.takes]
    around = 1 + (taking[0].around if len(taking) == 1 else 0)
    if around > _MOST_AROUND:
        # some bytes could hold more records than any memory
        raise Rejection("unusable_schema", f"more than {_MOST_AROUND} records in it stand around a single value")
    takes = bool(taking)
    empty = sum(node.empty for node in nodes.values()) + (not takes)
    if empty > _MOST_EMPTY:
        raise Rejection("unusable_schema", f"a record in it has more than {_MOST_EMPTY} values that take no byte")
    fields += [(name, node.read) for name, node in nodes.items()]
    room = dict_of(len(nodes)) + sum(node.room for node in nodes.values())
    named[schema["name"]] = Node(read, takes, empty, around)
    return named[schema["name"]]


def _union(branches: Sequence[Node]) -> Node:
    reads = [branch.read for branch in branches]

    def read(written: bytes, at: int) -> tuple[Any, int]:
        branch, at = read_long(written, at)
        if not 0 <= branch < len(reads):
            raise Rejection("invalid_avro", f"branch {branch} of a union of {len(reads)}")
        return reads[branch](written, at)

    return Node(read, room=max((branch.room for branch in branches), default=0))


def _enum(schema: Mapping[str, Any], named: Named) -> Node:
    symbols = [_text(each) for each in schema["symbols"]]

    def read(written: bytes, at: int) -> tuple[Any, int]:
        index, at = read_long(written, at)
        if not 0 <= index < len(symbols):
            raise Rejection("invalid_avro", f"symbol {index} of {len(symbols)}")
        return symbols[index], at

    named[schema["name"]] = Node(read)
    return named[schema["name"]]


def _fixed(schema: Mapping[str, Any], named: Named) -> Node:
    size = schema["size"]
    if type(size) is not int or size < 0:
        raise Rejection("unusable_schema", f"a fixed in it has the size {str(size)[:20]}")

    def read(written: bytes, at: int) -> tuple[Any, int]:
        return cut(written, at, size), at + size

    named[schema["name"]] = _meant(schema, Node(read, takes=size > 0, empty=int(size == 0), room=_BYTES), named)
    return named[schema["name"]]


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise Rejection("unusable_schema", f"a name in it is {str(name)[:20]}")
    return name


def _array(schema: Mapping[str, Any], named: Named) -> Node:
    node = _node(schema["items"], named)
    item, room = node.read, node.room + SLOT
    if not node.takes:
        # some bytes could say that there are more of them than any memory holds
        raise Rejection("unusable_schema", "it has an array of what takes no byte")

    def read(written: bytes, at: int) -> tuple[Any, int]:
        found: list[Any] = []

        def one(at: int) -> int:
            value, at = item(written, at)
            found.append(value)
            return at

        return found, _blocks(written, at, one, named, room)

    return Node(read, room=LIST)


def _map(schema: Mapping[str, Any], named: Named) -> Node:
    node = _node(schema["values"], named)
    value, room = node.read, node.room + ENTRY

    def read(written: bytes, at: int) -> tuple[Any, int]:
        found: dict[str, Any] = {}

        def one(at: int) -> int:
            name, at = read_string(written, at)
            if name in found:
                raise Rejection("duplicate_name", f"{name!r} stands more than once")
            found[name], at = value(written, at)
            return at

        return found, _blocks(written, at, one, named, room)

    return Node(read, room=LIST)


def _blocks(written: bytes, at: int, one: Callable[[int], int], named: Named, room: int) -> int:
    """Read all items, block by block, each of which takes that room; one whose count is negative says its size."""
    while True:
        count, at = read_long(written, at)
        if count == 0:
            return at
        end = None
        if count < 0:
            size, at = read_long(written, at)
            end = at + size
        if abs(count) > len(written) - at:
            raise Rejection("truncated", f"{abs(count)} items in {len(written) - at} bytes")
        spend(named, abs(count) * room)
        for _ in range(abs(count)):
            at = one(at)
        if end not in (None, at):
            raise Rejection("invalid_avro", "a block has not the size that it says")


_PLAIN = {
    "null": Node(read_null, takes=False, empty=1),
    "boolean": Node(read_boolean),
    "int": Node(read_int, room=_NUMBER),
    "long": Node(read_long, room=_NUMBER),
    "float": Node(read_float, room=_NUMBER),
    "double": Node(read_double, room=_NUMBER),
    "bytes": Node(read_bytes, room=_BYTES),
    "string": Node(read_string, room=_STRING),
}
_COMPOSED: dict[str, Callable[[Mapping[str, Any], Named], Node]] = {
    "record": _record,
    "enum": _enum,
    "fixed": _fixed,
    "array": _array,
    "map": _map,
}
