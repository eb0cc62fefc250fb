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
from lakehouse.decoding.formats.protobuf.nodes import incomplete_rejection, message_nodes
from lakehouse.decoding.formats.schema_parser import Reader
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, MemoryCounter

MAX_LEVELS = 100
"""Of messages within messages: the limit of the library."""
_MESSAGE, _FIELD, _UNKNOWN = 48, 18, 130  # bytes of a message of the library, of a field in it, of an unknown field
_MAX_LIBRARY_MEMORY = MAX_RECORD_MEMORY // 2
_VARINT, _LENGTH, _START, _END = 0, 2, 3, 4  # wire types; the last two are those of groups
_FIXED_SIZES = {1: 8, 5: 4}
_ITEM_SIZES = {"double": 8, "fixed64": 8, "sfixed64": 8, "float": 4, "fixed32": 4, "sfixed32": 4}


def reader_of(schema: WriterSchema, state: MemoryCounter | None = None, *, is_own: bool = False) -> Reader:
    """Return a reader of records of a schema; ``state`` has the memory of the record that was read last.

    If the schema ``is_own``, records are its first message, and the place of their message is not in front of them.
    The reader raises ``Rejection`` with one of the reasons ``truncated``, ``invalid_utf8``, ``invalid_protobuf``,
    ``unusable_schema`` and ``too_large``. This function raises ``Rejection`` with the reason ``unusable_schema`` if no
    record of the schema can be read.
    """
    record_state = state or MemoryCounter()
    loaded = load_schema(schema)
    first_name = loaded.first_message.full_name if is_own else loaded.roots[0][0]
    read_message = _MessageReader(loaded, record_state).read

    def read_record(data: bytes, start: int) -> dict[str, Any]:
        record_state.memory = 0
        try:
            if is_own:
                return read_message(data, start, first_name)
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

    The library needs memory for all fields of a message, of which two bytes of a record are enough. ``memory_by_byte``
    is the most that a byte may need, and ``tags`` are the beginnings of messages, with the memory of one.
    """

    def __init__(self, loaded: LoadedSchema, state: MemoryCounter) -> None:
        self.messages, self.has_required, self.state = loaded.messages, loaded.has_required, state
        self.nodes, self.parsers = message_nodes(loaded, state), _parsers(loaded)
        self.decode_error = import_library().message.DecodeError
        self.memory_by_byte = max(_UNKNOWN, *map(_library_memory, loaded.messages.values())) // 2
        fields = (field for message in loaded.messages.values() for field in message.fields if field.message_type)
        self.tags = [(tag, _library_memory(field.message_type)) for field in fields for tag in _tags_of(field)]

    def needs_scan(self, data: bytes) -> bool:
        """Whether the library may need too much memory for a record, by the bytes in it that may be tags."""
        if len(data) * self.memory_by_byte <= _MAX_LIBRARY_MEMORY:
            return False
        memory = sum(data.count(tag) * memory for tag, memory in self.tags)
        return max(memory, len(data) * _UNKNOWN // 2) > _MAX_LIBRARY_MEMORY

    def read(self, data: bytes, pos: int, name: str) -> dict[str, Any]:
        """Read the message that begins at a position and ends with the bytes."""
        span = pos, len(data)
        if self.needs_scan(data):
            _scan(self.messages[name], self.state, data, span)
        try:
            message = self.parsers[name](data[pos:])
        except self.decode_error:
            _scan(self.messages[name], self.state, data, span)
            raise Rejection("invalid_protobuf", f"the bytes are not a message {name}") from None
        node = self.nodes[name]
        if self.has_required and not node.is_initialized(message):
            raise incomplete_rejection(name)
        return node.read(message)


def _parsers(loaded: LoadedSchema) -> dict[str, Callable[[bytes], Any]]:
    """What parses the bytes of each message; the library makes the classes of messages within each other at once."""
    pool, class_of = pool_of(map(_simplified, loaded.files)), import_library().message_factory.GetMessageClass
    try:
        return {name: class_of(pool.FindMessageTypeByName(name)).FromString for name in loaded.messages}
    except RecursionError:
        raise Rejection("unusable_schema", "too many of its messages are within each other") from None


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


def _library_memory(message: Any) -> int:
    return _MESSAGE + _FIELD * len(message.fields)


def _tags_of(field: Any) -> tuple[bytes, bytes]:
    """The bytes before a message, and those of the same number with zero bits after it."""
    tag, content = field.number << 3 | _LENGTH, bytearray()
    while tag >= 0x80:
        content.append(tag & 0x7F | 0x80)
        tag >>= 7
    return bytes([*content, tag]), bytes([*content, tag | 0x80])


def _scan(message: Any, state: MemoryCounter, data: bytes, span: tuple[int, int], level: int = 0) -> None:
    """Count the memory that the library needs for a message, and raise what is wrong with its bytes."""
    _require_level(level)
    state.add_memory(_library_memory(message))
    fields, (pos, end) = message.fields_by_number, span
    while pos < end:
        number, wire_type, pos = _read_tag(data, pos)
        field = fields.get(number)
        state.add_memory(_FIELD if field else _UNKNOWN)
        value_end = _skip(number, wire_type, data, pos, level)
        if wire_type == _START:
            state.add_memory(_UNKNOWN // 2 * (value_end - pos))
        elif field and wire_type == _LENGTH:
            _, pos = read_varint(data, pos)
            if field.message_type:
                _scan(field.message_type, state, data, (pos, value_end), level + 1)
            else:
                _require_content(field, data[pos:value_end], state)
        pos = value_end
    if pos != end:
        raise Rejection("truncated", f"a value in {message.full_name} ends after byte {end}, the end of the message")


def _require_content(field: Any, content: bytes, state: MemoryCounter) -> None:
    """Raise what is wrong with a text, or with numbers that follow one size."""
    type_ = TYPE_NAMES[field.type]
    if type_ == "string":
        try:
            content.decode()
        except UnicodeDecodeError as error:
            detail = f"the byte at place {error.start} of {field.name!r} is not UTF-8"
            raise Rejection("invalid_utf8", detail) from None
    elif type_ != "bytes" and field.is_repeated:
        state.add_memory(_FIELD * len(content))
        size = _ITEM_SIZES.get(type_)
        if len(content) % size if size else content[-1:] >= b"\x80":
            raise Rejection("truncated", f"an item of {field.name!r} ends after the end of its list")


def _read_tag(data: bytes, pos: int) -> tuple[int, int, int]:
    tag, pos = _read_short(data, pos)
    if not 0 < tag >> 3 < 2**29:
        raise Rejection("invalid_protobuf", f"a field has the number {tag >> 3}")
    return tag >> 3, tag & 7, pos


def _read_short(data: bytes, pos: int) -> tuple[int, int]:
    """Read a tag, which the library reads from five bytes at most."""
    number, end = read_varint(data, pos)
    if end - pos > 5:
        raise Rejection("invalid_protobuf", "a tag of more than five bytes")
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
