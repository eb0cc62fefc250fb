"""Strict readers of Protobuf's scalar types: each takes a position in the bytes and returns the value and its end.

If a record ends within a value, reading past the end raises ``IndexError`` or ``struct.error``.
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro.bytes import cut, read_double, read_float
from lakehouse.decoding.formats.varints import varint_reader

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""The wire types: how many bytes a value has. The others are those of groups, which no schema here has."""
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_MAX_SIZE = 2**31


read_varint = varint_reader("invalid_protobuf")
"""Read a whole number of 64 bits without a sign."""


def read_tag(data: bytes, pos: int) -> tuple[int, int]:
    """Read the number of a field and its wire type."""
    tag, pos = read_varint(data, pos)
    if tag >> 32:
        raise Rejection("invalid_protobuf", "a field has a number of more than 29 bits")
    return tag, pos


def read_zigzag(data: bytes, pos: int) -> tuple[int, int]:
    """Read a whole number of 64 bits whose lowest bit is the sign."""
    value, pos = read_varint(data, pos)
    return (value >> 1) ^ -(value & 1), pos


def read_size(data: bytes, pos: int) -> tuple[int, int]:
    """Read a size in bytes; raises ``Rejection`` if fewer follow."""
    size = data[pos]
    if size < 0x80:
        pos += 1
    else:
        size, pos = read_varint(data, pos)
    if size > len(data) - pos:
        if size >= _MAX_SIZE:
            raise Rejection("invalid_protobuf", f"a size of {size} bytes, or a negative one")
        raise Rejection("truncated", f"the record ends after {len(data)} bytes, within a value")
    return size, pos


def read_text(data: bytes, pos: int) -> tuple[str, int]:
    """Read a text in UTF-8, which follows its size in bytes."""
    size, pos = read_size(data, pos)
    end = pos + size
    try:
        return data[pos:end].decode(), end
    except UnicodeDecodeError as error:
        raise Rejection("invalid_utf8", f"the byte at place {pos + error.start} is not UTF-8") from None


def read_bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    """Read bytes, which follow their size."""
    size, pos = read_size(data, pos)
    return data[pos : pos + size], pos + size


def skip_value(wire_type: int, data: bytes, pos: int) -> int:
    """Return the end of a value of any wire type; raises ``Rejection`` if it is that of a group."""
    if wire_type == VARINT:
        return read_varint(data, pos)[1]
    if wire_type == LENGTH:
        size, pos = read_size(data, pos)
        return pos + size
    if wire_type not in _FIXED_SIZES:
        raise Rejection("invalid_protobuf", f"the wire type {wire_type}, which is that of a group or of nothing")
    size = _FIXED_SIZES[wire_type]
    cut(data, pos, size)
    return pos + size


def _read_bool(data: bytes, pos: int) -> tuple[bool, int]:
    value, pos = read_varint(data, pos)
    if value > 1:
        raise Rejection("invalid_protobuf", f"{value} is neither true nor false")
    return value == 1, pos


def _read_int64(data: bytes, pos: int) -> tuple[int, int]:
    value = data[pos]
    if value < 0x80:
        return value, pos + 1
    value, pos = read_varint(data, pos)
    return value - (value >> 63 << 64), pos


def read_int32(data: bytes, pos: int) -> tuple[int, int]:
    """Read a whole number of 32 bits, which is written like one of 64 bits."""
    value = data[pos]
    if value < 0x80:
        return value, pos + 1
    value, pos = _read_int64(data, pos)
    return _require_range(value, -(2**31), 2**31), pos


def _read_uint32(data: bytes, pos: int) -> tuple[int, int]:
    value, pos = read_varint(data, pos)
    return _require_range(value, 0, 2**32), pos


def _read_sint32(data: bytes, pos: int) -> tuple[int, int]:
    value, pos = read_zigzag(data, pos)
    return _require_range(value, -(2**31), 2**31), pos


def _require_range(value: int, minimum: int, limit: int) -> int:
    if not minimum <= value < limit:
        raise Rejection("invalid_protobuf", f"{value} does not fit into 32 bits")
    return value


def _fixed_reader(letter: str) -> Callable[[bytes, int], tuple[Any, int]]:
    form = f"<{letter}"  # a compiled form cannot be sent to workers
    size = struct.calcsize(form)

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        return struct.unpack_from(form, data, pos)[0], pos + size

    return read


class Scalar(NamedTuple):
    """How values of a scalar type are read, and the value that an absent field has."""

    read: Callable[[bytes, int], tuple[Any, int]]
    wire_type: int
    default: Any


SCALARS = {
    "double": Scalar(read_double, FIXED64, 0.0),
    "float": Scalar(read_float, FIXED32, 0.0),
    "int32": Scalar(read_int32, VARINT, 0),
    "int64": Scalar(_read_int64, VARINT, 0),
    "uint32": Scalar(_read_uint32, VARINT, 0),
    "uint64": Scalar(read_varint, VARINT, 0),
    "sint32": Scalar(_read_sint32, VARINT, 0),
    "sint64": Scalar(read_zigzag, VARINT, 0),
    "fixed32": Scalar(_fixed_reader("I"), FIXED32, 0),
    "fixed64": Scalar(_fixed_reader("Q"), FIXED64, 0),
    "sfixed32": Scalar(_fixed_reader("i"), FIXED32, 0),
    "sfixed64": Scalar(_fixed_reader("q"), FIXED64, 0),
    "bool": Scalar(_read_bool, VARINT, False),
    "string": Scalar(read_text, LENGTH, ""),
    "bytes": Scalar(read_bytes, LENGTH, b""),
}
"""The scalar types by their names."""
