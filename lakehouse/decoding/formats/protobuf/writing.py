"""Convert lines of JSON to Protobuf messages by a schema, for ``publish``.

A line has what the reader gives: enums by name, times as texts, durations as seconds, wrappers as their values. Bytes
are Base64, as in Protobuf's own JSON. A null is an absent field.
"""

import json
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import UnwritableError, WriterSchema
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.protobuf.bytes import LENGTH, SCALARS, VARINT
from lakehouse.decoding.formats.protobuf.lines import known_fields, require, scalar_bytes, sized, tag, varint
from lakehouse.decoding.formats.protobuf.nodes import MAX_LEVELS
from lakehouse.decoding.records import parse

_FIRST_MESSAGE = b"\x00"
_WRITE_ERRORS = (
    *(Rejection, ValueError, TypeError, KeyError, ArithmeticError, struct.error, AttributeError, RecursionError),
)
_DEFAULTS = {
    type_: sized(b"") if type_ in ("string", "bytes") else scalar_bytes(type_, False if type_ == "bool" else Decimal(0))
    for type_ in SCALARS
}
Part = Mapping[str, Any]


def line_writer(schema_id: int, schema: WriterSchema) -> Callable[[bytes], bytes]:
    """Return a function that writes a line as the first message of a schema, with the id of the schema in front.

    The function raises ``UnwritableError`` if a line does not fit the schema.
    """
    parts = json.loads(schema.text)
    message, writer = parts["roots"][0][0], _Writer(parts)

    def write(line: bytes) -> bytes:
        try:
            body = writer.fields(message, parse(line), 0)
        except _WRITE_ERRORS as error:
            detail = error.detail if isinstance(error, Rejection) else str(error)
            raise UnwritableError(f"it does not fit schema {schema_id}: {detail[:300]}") from None
        return add_frame(schema_id, _FIRST_MESSAGE + body)

    return write


class _Writer:
    """Writes values by the messages and enums of a compiled schema."""

    def __init__(self, parts: Part) -> None:
        self._messages, self._enums = parts["messages"], {name: dict(pairs) for name, pairs in parts["enums"].items()}

    def fields(self, message: str, raw: Any, level: int) -> bytes:
        """The bytes of a message from an object."""
        fields = {field["name"]: field for field in self._messages[message]}
        content = {name: value for name, value in require(raw, dict).items() if value is not None}
        if level > MAX_LEVELS:
            raise ValueError(f"its objects have more than {MAX_LEVELS} levels")
        for name in content:
            if name not in fields:
                raise ValueError(f"message {message} has no field {name!r}")
        for name, field in fields.items():
            if field.get("label") == "required" and name not in content:
                raise ValueError(f"{name!r} is required")
        oneofs = [fields[name]["oneof"] for name in content if "oneof" in fields[name]]
        if len(set(oneofs)) < len(oneofs):
            raise ValueError(f"a oneof of message {message} has two values")
        return b"".join(self._field(field, content[name], level) for name, field in fields.items() if name in content)

    def _field(self, field: Part, raw: Any, level: int) -> bytes:
        number, type_ = field["number"], field["type"]
        if "key" in field:
            return b"".join(
                tag(number, LENGTH) + sized(self._entry(field, key, value, level))
                for key, value in require(raw, dict).items()
            )
        if field.get("label") == "repeated":
            items = [self._value(type_, item, level) for item in require(raw, list)]
            if self._wire_type(type_) == LENGTH:
                return b"".join(tag(number, LENGTH) + item for item in items)
            return tag(number, LENGTH) + sized(b"".join(items)) if items else b""
        content = self._value(type_, raw, level)
        is_default = "label" not in field and content == self._default(type_)
        return b"" if is_default else tag(number, self._wire_type(type_)) + content

    def _entry(self, field: Part, key: str, value: Any, level: int) -> bytes:
        """The bytes of an entry of a map; its key is a text in JSON."""
        raw_key: Any = key
        if field["key"] == "bool":
            raw_key = {"true": True, "false": False}.get(key, key)
        elif field["key"] != "string":
            raw_key = Decimal(key)
        parts = ((1, field["key"], raw_key), (2, field["type"], value))
        return b"".join(
            tag(number, self._wire_type(type_)) + self._value(type_, raw, level) for number, type_, raw in parts
        )

    def _wire_type(self, type_: str) -> int:
        if type_ in SCALARS:
            return SCALARS[type_].wire_type
        return VARINT if type_[1:] in self._enums else LENGTH

    def _default(self, type_: str) -> bytes:
        return _DEFAULTS[type_] if type_ in SCALARS else varint(0)

    def _value(self, type_: str, raw: Any, level: int) -> bytes:
        name = type_[1:]
        if type_ in SCALARS:
            return scalar_bytes(type_, raw)
        if name in self._enums:
            return varint(self._enums[name][require(raw, str)])
        return sized(self.fields(name, known_fields(name, raw), level + 1))
