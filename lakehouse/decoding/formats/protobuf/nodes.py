"""The readers of Protobuf's messages, and the memory of the values that they read.

Pure and self-contained (the standard library only), like ``reader``.
"""

from collections.abc import Callable
from typing import Any

from lakehouse.decoding.fields import Rejection, UnrepresentableValue
from lakehouse.decoding.formats.protobuf.bytes import read_tag, skip_value
from lakehouse.decoding.memory import MAP_ENTRY, MAX_RECORD_MEMORY, too_large_rejection

KIND = "PROTOBUF"
"""The name of Protobuf's schemas in a registry."""
MAX_LEVELS = 100
"""Of messages within messages, as in Protobuf's own libraries."""
UNKNOWN_VALUE = UnrepresentableValue("a field that the schema does not have")

ReadValue = Callable[[bytes, int], tuple[Any, int]]
"""Read the value that begins at a position in the bytes; return it and the position of its end."""
AddItems = Callable[[bytes, int, dict[str, Any]], int]
"""Read the items that begin at a position into the values of a message; return the position of their end."""


class ReadState:
    """The memory in bytes of the record that is being read, and the level of the message."""

    memory = 0
    level = 0

    def add_memory(self, memory: int) -> None:
        """Count memory before it is used; a few bytes may describe more values than fit into any memory."""
        self.memory += memory
        if self.memory > MAX_RECORD_MEMORY:
            raise too_large_rejection()


Entry = tuple[str, int, ReadValue | None, AddItems | None, int]
"""How a field is read after its tag: its name, its bit, and the function that reads its value or adds its items.

The bit marks the field, or the oneof that it belongs to, as present. The last part is the memory of the value, without
its bytes in the record and without what is counted while it is read.
"""


class MessageNode:
    """How a message is read; its fields are added after all messages exist, since it may contain itself.

    ``entries`` are its fields by their tags, ``defaults`` the values of absent fields. ``required`` has the bits of
    the fields that each message must have. ``memory`` is that of a message without values.
    """

    def __init__(self, name: str, state: ReadState) -> None:
        self.name, self.state = name, state
        self.entries: dict[int, Entry] = {}
        self.defaults: dict[str, Any] = {}
        self.numbers: dict[int, str] = {}
        self.required = self.memory = 0

    def read(self, data: bytes, pos: int, end: int) -> dict[str, Any]:
        """Read the message between two positions."""
        self.state.add_memory(self.memory)
        entries, values = self.entries, self.defaults.copy()
        present_bits = memory = 0
        while pos < end:
            tag = data[pos]
            if tag < 0x80:
                pos += 1
            else:
                tag, pos = read_tag(data, pos)
            entry = entries.get(tag)
            if entry is None:
                pos = self._skip_unknown(tag, data, pos, values)
                continue
            name, bit, read, add, value_memory = entry
            if read is not None:
                if present_bits & bit:
                    raise self._repeated(name)
                present_bits |= bit
                values[name], pos = read(data, pos)
                memory += value_memory
            elif add is not None:
                pos = add(data, pos, values)
        if pos != end or self.required & ~present_bits:
            raise self._incomplete(pos, end)
        self.state.memory += memory
        return values

    def _skip_unknown(self, tag: int, data: bytes, pos: int, values: dict[str, Any]) -> int:
        """Skip a field that the schema does not have, and mark it by its number; return the position of its end."""
        number, wire_type = tag >> 3, tag & 7
        if number in self.numbers:
            detail = f"{self.numbers[number]!r} has the wire type {wire_type}, which its type does not have"
            raise Rejection("invalid_protobuf", detail)
        if number == 0:
            raise Rejection("invalid_protobuf", "a field has the number 0")
        pos = skip_value(wire_type, data, pos)
        name = f"#{number}"
        if name not in values:
            self.state.add_memory(MAP_ENTRY)
            values[name] = UNKNOWN_VALUE
        return pos

    def _incomplete(self, pos: int, end: int) -> Rejection:
        if pos != end:
            return Rejection("truncated", f"a value in {self.name} ends after byte {end}, the end of the message")
        return Rejection("invalid_protobuf", f"a required field of {self.name} is absent")

    def _repeated(self, name: str) -> Rejection:
        return Rejection("duplicate_name", f"{name!r}, or another field of its oneof, occurs more than once")
