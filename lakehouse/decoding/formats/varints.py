"""Whole numbers of variable length, which Avro and Protobuf write alike.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable

from lakehouse.decoding.fields import Rejection

_LAST_SHIFT = 63  # of the tenth byte


def varint_reader(reason: str) -> Callable[[bytes, int], tuple[int, int]]:
    """Return a function that reads a number at a position, and returns it and the position of its end.

    The number has 64 bits and no sign: seven bits in each byte, the lowest first. Zero bits at its end are valid if it
    has at most ten bytes. The function raises ``Rejection`` with this reason, and ``IndexError`` if the bytes end.
    """

    def read_varint(data: bytes, pos: int) -> tuple[int, int]:
        byte = data[pos]
        pos += 1
        if byte < 0x80:
            return byte, pos
        value, shift = byte & 0x7F, 7
        while byte >= 0x80:
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if shift == _LAST_SHIFT:
                break
            shift += 7
        if value >> 64 or byte >= 0x80:
            raise Rejection(reason, "a number of more than 64 bits or ten bytes")
        return value, pos

    return read_varint
