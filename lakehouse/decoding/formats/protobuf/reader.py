"""Read records of Protobuf by Google's library, within limits, and say what is wrong with those that it refuses.

The library reads enums as numbers and maps as lists of entries here. So their order stays, and so do numbers without a
name. Extensions are fields that the schema does not have.
"""

import struct
from collections.abc import Callable
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import WriterSchema
from lakehouse.decoding.formats.protobuf.compiled import (
    TYPE_NAMES,
    LoadedSchema,
    import_library,
    load_schema,
    pool_of,
    read_indexes,
    read_varint,
    root_name,
)
from lakehouse.decoding.formats.protobuf.nodes import MessageNode, ReadState, message_nodes, require_fields
from lakehouse.decoding.formats.schema_parser import Reader
from lakehouse.decoding.memory import MAX_RECORD_MEMORY

MAX_LEVELS = 100
"""Of messages within messages: the limit of the library."""
_MESSAGE, _FIELD, _UNKNOWN = 48, 16, 130  # bytes of a message of the library, of a field in it, of an unknown field
_VARINT, _LENGTH, _START, _END = 0, 2, 3, 4  # wire types; the last two are those of groups
_FIXED_SIZES = {1: 8, 5: 4}


def reader_of(schema: WriterSchema, state: ReadState | None = None) -> Reader:
    """Return a reader of records of a schema; ``state`` has the memory of the record that was read last.

    The reader raises ``Rejection`` with one of the reasons ``truncated``, ``invalid_utf8``, ``invalid_protobuf``,
    ``unusable_schema`` and ``too_large``. This function raises ``Rejection`` with the reason ``unusable_schema`` if no
    record of the schema can be read.
    """
    record_state = state or ReadState()
    loaded = load_schema(schema)
    first_name, read_message = loaded.roots[0][0], _MessageReader(loaded, record_state).read

    def read_record(data: bytes, start: int) -> dict[str, Any]:
        record_state.memory = 0
        try:
            if data[start] == 0:  # the short form for the first message
                return read_message(data, start + 1, first_name)
            indexes, pos = read_indexes(data, start)
            return read_message(data, pos, root_name(loaded.roots, indexes))
        except (IndexError, struct.error):
            raise Rejection("truncated", f"the record ends after {len(data)} bytes, within a value") from None
        except RecursionError:
            raise Rejection("invalid_protobuf", "nested too deeply") from None

    return read_record


class _MessageReader:
    """Reads messages of a schema, each by its name.

    A record of at most ``unscanned_size`` bytes stays below the limit of memory in the library: each message in a
    record has two bytes at least.
    """

    def __init__(self, loaded: LoadedSchema, state: ReadState) -> None:
        most_fields = max(len(message.fields) for message in loaded.messages.values())
        self.has_required = loaded.has_required
        self.unscanned_size = MAX_RECORD_MEMORY // max(_UNKNOWN, _MESSAGE + _FIELD * most_fields)
        self.nodes, self.parsers = message_nodes(loaded, state), _parsers(loaded)
        self.decode_error = import_library().message.DecodeError

    def read(self, data: bytes, pos: int, name: str) -> dict[str, Any]:
        """Read the message that begins at a position and ends with the bytes."""
        node = self.nodes[name]
        if len(data) - pos > self.unscanned_size:
            _scan(node, data, pos, len(data))
        try:
            message = self.parsers[name](data[pos:])
        except self.decode_error:
            _scan(node, data, pos, len(data))
            raise Rejection("invalid_protobuf", f"the bytes are not a message {name}") from None
        if self.has_required:
            require_fields(message, name)
        return node.read(message)


def _parsers(loaded: LoadedSchema) -> dict[str, Callable[[bytes], Any]]:
    """What parses the bytes of each message."""
    pool, class_of = pool_of(map(_simplified, loaded.files)), import_library().message_factory.GetMessageClass
    return {name: class_of(pool.FindMessageTypeByName(name)).FromString for name in loaded.messages}


def _simplified(file: Any) -> Any:
    simple_file = type(file).FromString(file.SerializeToString())
    del simple_file.extension[:]
    messages = [*simple_file.message_type]
    while messages:
        message = messages.pop()
        messages += message.nested_type
        del message.extension[:]
        if message.HasField("options"):
            message.options.ClearField("map_entry")
        for field in message.field:
            field.ClearField("default_value")
            if TYPE_NAMES[field.type] == "enum":
                field.type = TYPE_NAMES.index("int32")
                field.ClearField("type_name")
    return simple_file


def _scan(node: MessageNode, data: bytes, pos: int, end: int, level: int = 0) -> None:
    """Count the memory that the library needs for a message, and raise what is wrong with its bytes."""
    _require_level(level)
    node.state.add_memory(_MESSAGE + _FIELD * len(node.names))
    while pos < end:
        number, wire_type, pos = _read_tag(data, pos)
        node.state.add_memory(_FIELD if number in node.names else _UNKNOWN)
        if wire_type != _LENGTH:
            value_end = _skip(number, wire_type, data, pos, level)
            node.state.add_memory(_UNKNOWN // 2 * (value_end - pos) if wire_type == _START else 0)
            pos = value_end
            continue
        size, pos = read_varint(data, pos)
        value_end = _require_end(data, pos, size)
        if number in node.inner:
            _scan(node.inner[number], data, pos, value_end, level + 1)
        elif number in node.texts:
            _require_utf8(data, pos, value_end)
        elif number in node.packed:
            node.state.add_memory(_FIELD * size)
            _require_items(data[pos:value_end], node.packed[number], node.names[number])
        pos = value_end
    if pos != end:
        raise Rejection("truncated", f"a value in {node.name} ends after byte {end}, the end of the message")


def _read_tag(data: bytes, pos: int) -> tuple[int, int, int]:
    tag, pos = _read_short(data, pos)
    if not 0 < tag >> 3 < 2**29:
        raise Rejection("invalid_protobuf", f"a field has the number {tag >> 3}")
    return tag >> 3, tag & 7, pos


def _read_short(data: bytes, pos: int) -> tuple[int, int]:
    """Read a tag or a size, which the library reads from five bytes at most."""
    number, end = read_varint(data, pos)
    if end - pos > 5:
        raise Rejection("invalid_protobuf", "a tag or a size of more than five bytes")
    return number, end


def _skip(number: int, wire_type: int, data: bytes, pos: int, level: int) -> int:
    """Return the end of a value of any wire type; that of a group is the tag that ends it."""
    if wire_type == _VARINT:
        return read_varint(data, pos)[1]
    if wire_type == _LENGTH:
        size, pos = read_varint(data, pos)
        return _require_end(data, pos, size)
    if wire_type in _FIXED_SIZES:
        return _require_end(data, pos, _FIXED_SIZES[wire_type])
    if wire_type != _START:
        raise Rejection("invalid_protobuf", f"the wire type {wire_type}, which is none or ends no group")
    _require_level(level + 1)
    inner_number, inner_type, pos = _read_tag(data, pos)
    while (inner_number, inner_type) != (number, _END):
        pos = _skip(inner_number, inner_type, data, pos, level + 1)
        inner_number, inner_type, pos = _read_tag(data, pos)
    return pos


def _require_level(level: int) -> None:
    if level > MAX_LEVELS:
        raise Rejection("invalid_protobuf", f"messages have more than {MAX_LEVELS} levels")


def _require_end(data: bytes, pos: int, size: int) -> int:
    if size >= 2**31:
        raise Rejection("invalid_protobuf", f"a size of {size} bytes, or a negative one")
    if pos + size > len(data):
        raise Rejection("truncated", f"the record ends after {len(data)} bytes, within a value")
    return pos + size


def _require_items(items: bytes, item_size: int, name: str) -> None:
    is_cut = len(items) % item_size if item_size else items[-1:] >= b"\x80"
    if is_cut:
        raise Rejection("truncated", f"an item of {name!r} ends after the end of its list")


def _require_utf8(data: bytes, pos: int, end: int) -> None:
    try:
        data[pos:end].decode()
    except UnicodeDecodeError as error:
        raise Rejection("invalid_utf8", f"the byte at place {pos + error.start} is not UTF-8") from None
