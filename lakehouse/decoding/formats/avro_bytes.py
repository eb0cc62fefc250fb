"""The plain types of Avro, read strictly: each from a place in the bytes of a record to the place behind the value.

Where a record ends within a value, reading beyond its end says so: ``IndexError`` and ``struct.error`` mean that.
"""

import struct
from math import isfinite
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro_logical import not_finite, shortest


def read_null(_: bytes, at: int) -> tuple[None, int]:
    """Nothing, of no byte."""
    return None, at


def read_boolean(written: bytes, at: int) -> tuple[bool, int]:
    """One byte: 0 or 1."""
    byte = written[at]
    if byte > 1:
        raise Rejection("invalid_avro", f"byte {byte} is neither true nor false")
    return byte == 1, at + 1


def read_long(written: bytes, at: int) -> tuple[int, int]:
    """A whole number of 64 bits: seven in each byte, the lowest first, the sign in the lowest of all."""
    byte = written[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = written[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if value >> 64:
            raise Rejection("invalid_avro", "a number of more than 64 bits")
        if shift > 70:
            raise Rejection("invalid_avro", "a number of more than ten bytes")
    return (value >> 1) ^ -(value & 1), at


def read_int(written: bytes, at: int) -> tuple[int, int]:
    """A whole number of 32 bits, written as one of 64."""
    value, at = read_long(written, at)
    if not -(2**31) <= value < 2**31:
        raise Rejection("invalid_avro", f"{value} is no number of 32 bits")
    return value, at


def read_float(written: bytes, at: int) -> tuple[Any, int]:
    """A number of 32 bits, as the shortest that means it."""
    end = at + 4
    (value,) = struct.unpack_from("<f", written, at)
    return shortest(value, written[at:end]), end


def read_double(written: bytes, at: int) -> tuple[Any, int]:
    """A number of 64 bits; what is not finite is a decimal, as ``shortest`` has it."""
    (value,) = struct.unpack_from("<d", written, at)
    return value if isfinite(value) else not_finite(value), at + 8


def read_bytes(written: bytes, at: int) -> tuple[bytes, int]:
    """Bytes, behind how many they are."""
    size, at = read_long(written, at)
    if size < 0:
        raise Rejection("invalid_avro", f"a text or bytes of size {size}")
    return cut(written, at, size), at + size


def read_string(written: bytes, at: int) -> tuple[str, int]:
    """A text in UTF-8, behind how many bytes it has."""
    size = written[at]
    if size < 0x80 and not size & 1:  # most are short: told in one byte, of which the lowest bit is the sign
        at += 1
        end = at + (size >> 1)
        held = written[at:end] if end <= len(written) else cut(written, at, end - at)
    else:
        held, end = read_bytes(written, at)
    try:
        return held.decode(), end
    except UnicodeDecodeError as error:
        raise Rejection("invalid_utf8", f"byte {end - len(held) + error.start} is not UTF-8") from None


def cut(written: bytes, at: int, size: int) -> bytes:
    """So many bytes; ``Rejection`` where there are fewer."""
    if size > len(written) - at:
        raise Rejection("truncated", f"the record ends after {len(written)} bytes, within a value")
    return written[at : at + size]
