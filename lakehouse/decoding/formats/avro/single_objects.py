"""Avro's single-object encoding: two marker bytes and the fingerprint of the schema precede a value.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import struct

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.framing import Framing
from lakehouse.decoding.records import require_value

_MARKER = b"\xc3\x01"
_HEADER = "<2sQ"
_HEADER_SIZE = struct.calcsize(_HEADER)


def split_single_object(value: bytes | None) -> tuple[int, bytes]:
    """Return the fingerprint of a value's schema, and the value, which still has its header.

    Raises ``Rejection`` with one of the reasons ``tombstone``, ``empty_value``, ``wrong_magic`` and ``truncated``.
    """
    value = require_value(value)
    if not value.startswith(_MARKER):
        detail = f"the first bytes are {value[:2].hex(' ')}; a single object begins with {_MARKER.hex(' ')}"
        raise Rejection("wrong_magic", detail)
    if len(value) < _HEADER_SIZE:
        detail = f"the record ends after {len(value)} bytes, within the fingerprint of its schema"
        raise Rejection("truncated", detail)
    _, fingerprint = struct.unpack_from(_HEADER, value)
    return fingerprint, value


def add_fingerprint(fingerprint: int, value: bytes) -> bytes:
    """Return a value as a single object of the schema with this fingerprint."""
    return struct.pack(_HEADER, _MARKER, fingerprint) + value


def is_single_object(value: bytes) -> bool:
    """Whether a value may be a single object, and has more bytes after its header."""
    return value.startswith(_MARKER) and len(value) > _HEADER_SIZE


def shown_fingerprint(fingerprint: int) -> str:
    """The bytes of a fingerprint in the order of a record, as hexadecimal digits."""
    return fingerprint.to_bytes(8, "little").hex()


def _describe_unknown(fingerprint: int) -> str:
    return f"no declared schema has the fingerprint {shown_fingerprint(fingerprint)}"


SINGLE_OBJECT_FRAMING = Framing(split_single_object, _HEADER_SIZE, add_fingerprint, _describe_unknown)
