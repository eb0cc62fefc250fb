"""Read Avro strictly: the bytes of a record and its writer's schema give the values of its fields by name.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's
executors. Schemas are in the form of ``schemas``: all names in full, definitions before references.
"""

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

from lakehouse.decoding.fields import Rejection, UnrepresentableValue
from lakehouse.decoding.formats.avro.bytes import (
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
from lakehouse.decoding.formats.avro.logical import logical_converter
from lakehouse.decoding.formats.avro.nodes import (
    NamedNodes,
    Node,
    Read,
    is_record_schema,
    type_name,
    union_node,
)
from lakehouse.decoding.formats.format import WriterSchema
from lakehouse.decoding.formats.schema_parser import Reader
from lakehouse.decoding.memory import (
    BYTES,
    CONTAINER,
    LIST_SLOT,
    LOGICAL,
    MAP_ENTRY,
    MAX_RECORD_MEMORY,
    NUMBER,
    TEXT,
    UNREPRESENTABLE,
    dict_memory,
    too_large_rejection,
)

_MAX_EMPTY_VALUES = 16  # values without a byte in one record
_MAX_WRAPPERS = 16  # nested records around one value that have no bytes of their own


def reader_of(schema: WriterSchema, nodes: NamedNodes | None = None, *, any_type: bool = False) -> Reader:
    """Return a reader of records of a schema; ``nodes`` counts the memory of the record that was read last.

    With ``any_type``, of values of any type except bytes.

    The reader raises ``Rejection`` with one of the reasons ``truncated``, ``trailing_bytes``, ``invalid_utf8``,
    ``invalid_avro`` and ``too_large``. This function raises ``Rejection`` with the reason ``unusable_schema`` if no
    record of the schema can be read.
    """
    all_nodes = NamedNodes() if nodes is None else nodes
    for reference in schema.references:
        _node(json.loads(reference), all_nodes)
    root = json.loads(schema.text)
    read = _node(root, all_nodes).read
    _require_root(root, all_nodes, any_type=any_type)

    def read_record(data: bytes, start: int) -> dict[str, Any]:
        all_nodes.memory = 0
        try:
            value, end = read(data, start)
        except (IndexError, struct.error):
            raise Rejection("truncated", f"the record ends after {len(data)} bytes, within a value") from None
        except RecursionError:
            raise Rejection("invalid_avro", "nested too deeply") from None
        if end != len(data):
            raise Rejection("trailing_bytes", f"{len(data) - end} bytes follow the record")
        record: dict[str, Any] = value
        return record

    return read_record


def _require_root(root: Any, nodes: NamedNodes, *, any_type: bool) -> None:
    """Refuse a schema whose values cannot be read as a whole."""
    if not any_type and not is_record_schema(root, nodes):
        raise Rejection("unusable_schema", "its type is not a record")
    if any_type and "bytes" in map(type_name, root if isinstance(root, list) else [root]):
        raise Rejection("unusable_schema", "its type is bytes, which some serializers write without their length")


def _node(schema: Any, nodes: NamedNodes) -> Node:
    """Return the node of a schema."""
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or _named_node(schema, nodes)
    if isinstance(schema, list):
        return union_node(schema, [_node(branch, nodes) for branch in schema], nodes)
    kind = schema["type"]
    if isinstance(kind, str) and kind in _COMPLEX_TYPES:
        return _COMPLEX_TYPES[kind](schema, nodes)
    return _logical(schema, _node(kind, nodes), nodes)


def _named_node(name: str, nodes: NamedNodes) -> Node:
    """Return the node of a named schema, which may contain itself."""
    if name not in nodes:
        raise Rejection("unusable_schema", f"it refers to {name}, which it does not define")
    return nodes[name]


def _logical(schema: Mapping[str, Any], node: Node, nodes: NamedNodes) -> Node:
    """Return the node of a logical type."""
    convert = logical_converter(schema)
    if convert is None:
        return node
    read = node.read

    def read_logical(data: bytes, pos: int) -> tuple[Any, int]:
        raw, pos = read(data, pos)
        value = convert(raw)
        if type(value) is UnrepresentableValue:
            nodes.add_memory(UNREPRESENTABLE)
        return value, pos

    return node._replace(read=read_logical, memory=LOGICAL)


def _record(schema: Mapping[str, Any], nodes: NamedNodes) -> Node:
    fields: list[tuple[str, Read]] = []
    memory = 0

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        nodes.memory += memory
        if nodes.memory > MAX_RECORD_MEMORY:
            raise too_large_rejection()
        values = {}
        for name, read_field in fields:
            values[name], pos = read_field(data, pos)
        return values, pos

    nodes[schema["name"]] = Node(read)
    nodes.record_names.add(schema["name"])
    field_nodes = {_require_name(field["name"]): _node(field["type"], nodes) for field in schema["fields"]}
    if len(field_nodes) < len(schema["fields"]):
        raise Rejection("unusable_schema", "a record in it has two fields of the same name")
    nodes_with_bytes = [node for node in field_nodes.values() if node.has_bytes]
    wrappers = 1 + (nodes_with_bytes[0].wrappers if len(nodes_with_bytes) == 1 else 0)
    if wrappers > _MAX_WRAPPERS:
        # a few bytes could describe more records than fit into any memory
        raise Rejection("unusable_schema", f"more than {_MAX_WRAPPERS} nested records in it contain only one value")
    has_bytes = bool(nodes_with_bytes)
    empty_values = sum(node.empty_values for node in field_nodes.values()) + (not has_bytes)
    if empty_values > _MAX_EMPTY_VALUES:
        raise Rejection("unusable_schema", f"a record in it has more than {_MAX_EMPTY_VALUES} values without a byte")
    fields += [(name, node.read) for name, node in field_nodes.items()]
    memory = dict_memory(len(field_nodes)) + sum(node.memory for node in field_nodes.values())
    nodes[schema["name"]] = Node(read, has_bytes, empty_values, wrappers)
    return nodes[schema["name"]]


def _enum(schema: Mapping[str, Any], nodes: NamedNodes) -> Node:
    symbols = [_require_name(symbol) for symbol in schema["symbols"]]

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        index, pos = read_long(data, pos)
        if not 0 <= index < len(symbols):
            raise Rejection("invalid_avro", f"symbol {index} of an enum of {len(symbols)}")
        return symbols[index], pos

    nodes[schema["name"]] = Node(read)
    return nodes[schema["name"]]


def _fixed(schema: Mapping[str, Any], nodes: NamedNodes) -> Node:
    size = schema["size"]
    if type(size) is not int or size < 0:
        raise Rejection("unusable_schema", f"a fixed type in it has the size {str(size)[:20]}")

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        return cut(data, pos, size), pos + size

    node = Node(read, has_bytes=size > 0, empty_values=int(size == 0), memory=BYTES)
    nodes[schema["name"]] = _logical(schema, node, nodes)
    return nodes[schema["name"]]


def _require_name(name: Any) -> str:
    if not isinstance(name, str):
        raise Rejection("unusable_schema", f"a name in it is not a string: {str(name)[:20]}")
    return name


def _array(schema: Mapping[str, Any], nodes: NamedNodes) -> Node:
    node = _node(schema["items"], nodes)
    read_item, item_memory = node.read, node.memory + LIST_SLOT
    if not node.has_bytes:
        # a few bytes could describe more items than fit into any memory
        raise Rejection("unusable_schema", "it has an array whose items have no bytes")

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        items: list[Any] = []

        def read_next(pos: int) -> int:
            value, pos = read_item(data, pos)
            items.append(value)
            return pos

        return items, _read_blocks(data, pos, read_next, nodes, item_memory)

    return Node(read, memory=CONTAINER)


def _map(schema: Mapping[str, Any], nodes: NamedNodes) -> Node:
    node = _node(schema["values"], nodes)
    read_value, entry_memory = node.read, node.memory + MAP_ENTRY

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}

        def read_next(pos: int) -> int:
            name, pos = read_string(data, pos)
            if name in values:
                raise Rejection("duplicate_name", f"{name!r} occurs more than once")
            values[name], pos = read_value(data, pos)
            return pos

        return values, _read_blocks(data, pos, read_next, nodes, entry_memory)

    return Node(read, memory=CONTAINER)


def _read_blocks(data: bytes, pos: int, read_next: Callable[[int], int], nodes: NamedNodes, item_memory: int) -> int:
    """Read all items, block by block; a block whose count is negative also has its size in bytes."""
    while True:
        count, pos = read_long(data, pos)
        if count == 0:
            return pos
        end = None
        if count < 0:
            size, pos = read_long(data, pos)
            end = pos + size
        if abs(count) > len(data) - pos:
            raise Rejection("truncated", f"{abs(count)} items in {len(data) - pos} bytes")
        nodes.add_memory(abs(count) * item_memory)
        for _ in range(abs(count)):
            pos = read_next(pos)
        if end not in (None, pos):
            raise Rejection("invalid_avro", "the written size of a block is wrong")


_PRIMITIVES = {
    "null": Node(read_null, has_bytes=False, empty_values=1),
    "boolean": Node(read_boolean),
    "int": Node(read_int, memory=NUMBER),
    "long": Node(read_long, memory=NUMBER),
    "float": Node(read_float, memory=NUMBER),
    "double": Node(read_double, memory=NUMBER),
    "bytes": Node(read_bytes, memory=BYTES),
    "string": Node(read_string, memory=TEXT),
}
_COMPLEX_TYPES: dict[str, Callable[[Mapping[str, Any], NamedNodes], Node]] = {
    "record": _record,
    "enum": _enum,
    "fixed": _fixed,
    "array": _array,
    "map": _map,
}
