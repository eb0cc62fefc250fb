"""Strict readers of Avro's primitive types: each takes a position in the bytes and returns the value and its end.

If a record ends within a value, reading past the end raises ``IndexError`` or ``struct.error``.
"""

import struct
from math import isfinite
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro.logical import non_finite_decimal, shortest_float
from lakehouse.decoding.formats.varints import varint_reader

_read_varint = varint_reader("invalid_avro")


def read_null(_: bytes, pos: int) -> tuple[None, int]:
    """Read a null, which has no bytes."""
    return None, pos


def read_boolean(data: bytes, pos: int) -> tuple[bool, int]:
    """Read a boolean: one byte, 0 or 1."""
    byte = data[pos]
    if byte > 1:
        raise Rejection("invalid_avro", f"byte {byte} is neither true nor false")
    return byte == 1, pos + 1


def read_long(data: bytes, pos: int) -> tuple[int, int]:
    """Read a whole number of 64 bits: seven bits in each byte, the lowest first; the lowest bit of all is the sign."""
    value = data[pos]
    if value < 0x80:
        pos += 1
    else:
        value, pos = _read_varint(data, pos)
    return (value >> 1) ^ -(value & 1), pos


def read_int(data: bytes, pos: int) -> tuple[int, int]:
    """Read a whole number of 32 bits, which is written like one of 64 bits."""
    value, pos = read_long(data, pos)
    if not -(2**31) <= value < 2**31:
        raise Rejection("invalid_avro", f"{value} does not fit into 32 bits")
    return value, pos


def read_float(data: bytes, pos: int) -> tuple[Any, int]:
    """Read a number of 32 bits, as ``shortest_float`` gives it."""
    end = pos + 4
    (value,) = struct.unpack_from("<f", data, pos)
    return shortest_float(value, data[pos:end]), end


def read_double(data: bytes, pos: int) -> tuple[Any, int]:
    """Read a number of 64 bits; a decimal if it is not finite."""
    (value,) = struct.unpack_from("<d", data, pos)
    return value if isfinite(value) else non_finite_decimal(value), pos + 8


def read_bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    """Read bytes, which follow their size."""
    size, pos = read_long(data, pos)
    if size < 0:
        raise Rejection("invalid_avro", f"a text or bytes of size {size}")
    return cut(data, pos, size), pos + size


def read_string(data: bytes, pos: int) -> tuple[str, int]:
    """Read a text in UTF-8, which follows its size in bytes."""
    size = data[pos]
    if size < 0x80 and not size & 1:  # most texts are short: the size is one byte, whose lowest bit is the sign
        pos += 1
        end = pos + (size >> 1)
        text_bytes = data[pos:end] if end <= len(data) else cut(data, pos, end - pos)
    else:
        text_bytes, end = read_bytes(data, pos)
    try:
        return text_bytes.decode(), end
    except UnicodeDecodeError as error:
        place = end - len(text_bytes) + error.start
        raise Rejection("invalid_utf8", f"the byte at place {place} is not UTF-8") from None


def cut(data: bytes, pos: int, size: int) -> bytes:
    """Return ``size`` bytes; raises ``Rejection`` if there are fewer."""
    if size > len(data) - pos:
        raise Rejection("truncated", f"the record ends after {len(data)} bytes, within a value")
    return data[pos : pos + size]
