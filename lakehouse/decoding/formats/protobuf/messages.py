"""Make the readers of the messages of a schema: of their values, lists and maps.

Pure and self-contained (the standard library only), like ``reader``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Rejection, UnrepresentableValue
from lakehouse.decoding.formats.protobuf.bytes import LENGTH, SCALARS, VARINT, read_int32, read_size
from lakehouse.decoding.formats.protobuf.nodes import MAX_LEVELS, AddItems, MessageNode, ReadState, ReadValue
from lakehouse.decoding.formats.protobuf.values import CONVERTERS, WRAPPERS
from lakehouse.decoding.memory import (
    BYTES,
    CONTAINER,
    LIST_SLOT,
    LOGICAL,
    MAP_ENTRY,
    NUMBER,
    TEXT,
    UNREPRESENTABLE,
    dict_memory,
)

_CONTINUED = bytes(range(0x80, 0x100))  # bytes of a number that is not at its end
_ABSENT, _EMPTY = object(), b"\x00"  # no value in an entry of a map, which means a message without content
_MEMORY = {"string": TEXT, "bytes": BYTES, "bool": 0}
_TRUTHS = {True: "true", False: "false"}


class _Kind(NamedTuple):
    """How values of a type are read, and the value that an absent one is; only messages have none."""

    read: ReadValue
    wire_type: int
    default: Any = None
    memory: int = 0
    is_message: bool = False


def message_nodes(parts: Mapping[str, Any], state: ReadState) -> dict[str, MessageNode]:
    """Return the nodes of all messages of a compiled schema, by their names."""
    nodes = {name: MessageNode(name, state) for name in parts["messages"]}
    kinds = {f".{name}": _enum(name, pairs, state) for name, pairs in parts["enums"].items()}
    kinds |= {f".{name}": _message(node) for name, node in nodes.items()}
    kinds |= {
        name: _Kind(scalar.read, scalar.wire_type, scalar.default, _MEMORY.get(name, NUMBER))
        for name, scalar in SCALARS.items()
    }
    for name, fields in parts["messages"].items():
        _add_fields(nodes[name], fields, kinds)
    return nodes


def _add_fields(node: MessageNode, fields: Iterable[Mapping[str, Any]], kinds: Mapping[str, _Kind]) -> None:
    bits: dict[Any, int] = {}
    for field in fields:
        name, number, label, kind = field["name"], field["number"], field.get("label"), kinds[field["type"]]
        node.numbers[number] = name
        if "key" in field:
            node.entries[_tag(number, LENGTH)] = (name, 0, None, _map(node, field, kinds), 0)
            node.defaults[name] = {}
        elif label == "repeated":
            if kind.wire_type != LENGTH:
                node.entries[_tag(number, LENGTH)] = (name, 0, None, _packed_list(node, name, kind), 0)
            node.entries[_tag(number, kind.wire_type)] = (name, 0, None, _list(node, name, kind), 0)
            node.defaults[name] = []
        else:
            bit = bits.setdefault(field.get("oneof", number), 1 << len(bits))
            node.entries[_tag(number, kind.wire_type)] = (name, bit, kind.read, None, kind.memory)
            node.required |= bit if label == "required" else 0
            is_wrapper = field["type"][1:] in WRAPPERS and "oneof" not in field
            if not label or is_wrapper:
                node.defaults[name] = kind.default
    node.memory = dict_memory(len(node.numbers))


def _tag(number: int, wire_type: int) -> int:
    return (number << 3) | wire_type


def _enum(enum: str, pairs: Iterable[tuple[str, int]], state: ReadState) -> _Kind:
    """The names of an enum; of several names of a number, the first one. A number without a name is not a text."""
    names: dict[int, str] = {}
    for name, number in pairs:
        names.setdefault(number, name)

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        number, pos = read_int32(data, pos)
        name = names.get(number)
        if name is not None:
            return name, pos
        state.add_memory(UNREPRESENTABLE)
        return UnrepresentableValue(f"{number}, without a name in {enum}"), pos

    return _Kind(read, VARINT, next(iter(names.values())))


def _message(node: MessageNode) -> _Kind:
    """Messages as objects, and those of known types as what they mean."""
    state, convert = node.state, CONVERTERS.get(node.name)

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        size, pos = read_size(data, pos)
        if state.level == MAX_LEVELS:
            raise Rejection("invalid_protobuf", f"messages have more than {MAX_LEVELS} levels")
        state.level += 1
        value = node.read(data, pos, pos + size)
        state.level -= 1
        return value, pos + size

    def read_converted(data: bytes, pos: int) -> tuple[Any, int]:
        fields, pos = read(data, pos)
        return convert(fields) if convert else fields, pos

    if convert:
        return _Kind(read_converted, LENGTH, memory=LOGICAL, is_message=True)
    return _Kind(read, LENGTH, is_message=True)


def _list(node: MessageNode, name: str, kind: _Kind) -> AddItems:
    state, read = node.state, kind.read
    item_memory = LIST_SLOT + kind.memory

    def add(data: bytes, pos: int, values: dict[str, Any]) -> int:
        item, pos = read(data, pos)
        items = values[name]
        if items:
            items.append(item)
        else:  # the empty list is shared by all messages
            values[name] = [item]
            state.add_memory(CONTAINER)
        state.add_memory(item_memory)
        return pos

    return add


def _packed_list(node: MessageNode, name: str, kind: _Kind) -> AddItems:
    """Numbers that follow their size in bytes together."""
    state, read = node.state, kind.read
    item_memory, size_of_item = LIST_SLOT + kind.memory, {1: 8, 5: 4}.get(kind.wire_type)

    def add(data: bytes, pos: int, values: dict[str, Any]) -> int:
        size, pos = read_size(data, pos)
        end = pos + size
        count = size // size_of_item if size_of_item else len(data[pos:end].translate(None, _CONTINUED))
        state.add_memory(CONTAINER + count * item_memory)
        items = values[name] or []
        values[name] = items
        while pos < end:
            item, pos = read(data, pos)
            items.append(item)
        if pos != end:
            raise Rejection("truncated", f"an item of {name!r} ends after byte {end}, the end of its list")
        return pos

    return add


def _map(node: MessageNode, field: Mapping[str, Any], kinds: Mapping[str, _Kind]) -> AddItems:
    """Entries of a key and a value; keys become texts."""
    name, value_kind, state = field["name"], kinds[field["type"]], node.state
    entry_node = MessageNode(f"{node.name}.{name}", state)
    parts = [{"number": 1, "name": "key", "type": field["key"]}, {"number": 2, "name": "value", "type": field["type"]}]
    _add_fields(entry_node, parts, kinds)
    if value_kind.is_message:
        entry_node.defaults["value"] = _ABSENT
    read_entry = _message(entry_node).read

    def add(data: bytes, pos: int, values: dict[str, Any]) -> int:
        entry, pos = read_entry(data, pos)
        if len(entry) > 2:
            raise Rejection("invalid_protobuf", f"an entry of {name!r} has more than a key and a value")
        key, value = entry["key"], entry["value"]
        text = key if type(key) is str else _TRUTHS[key] if type(key) is bool else str(key)
        if value is _ABSENT:
            value, _ = value_kind.read(_EMPTY, 0)
        pairs = values[name] or {}
        if text in pairs:
            raise Rejection("duplicate_name", f"{text!r} occurs more than once in {name!r}")
        pairs[text] = value
        values[name] = pairs
        state.add_memory(MAP_ENTRY + value_kind.memory)
        return pos

    return add
