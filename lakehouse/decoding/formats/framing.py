"""What precedes a value and says which schema wrote it: with a registry, a zero byte and the id of the schema.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.records import require_value

_FRAME = ">BI"
FRAME_SIZE = 5
"""Bytes in front of a value."""


def split_frame(value: bytes | None) -> tuple[int, bytes]:
    """Return the id of a value's schema, and the value, which still has its frame.

    Raises ``Rejection`` with one of the reasons ``tombstone``, ``empty_value``, ``wrong_magic`` and ``truncated``.
    """
    value = require_value(value)
    if value[0] != 0:
        raise Rejection("wrong_magic", f"the first byte is {value[0]}; a value with a schema id begins with 0")
    if len(value) < FRAME_SIZE:
        raise Rejection("truncated", f"the record ends after {len(value)} bytes, within the id of its schema")
    _, schema_id = struct.unpack_from(_FRAME, value)
    return schema_id, value


def add_frame(schema_id: int, value: bytes) -> bytes:
    """Return a value with the id of its schema in front."""
    return struct.pack(_FRAME, 0, schema_id) + value


def has_frame(value: bytes) -> bool:
    """Whether a value may begin with the id of a schema, and has more bytes after it."""
    return value[0] == 0 and len(value) > FRAME_SIZE


class Framing(NamedTuple):
    """What precedes values and says which schema wrote them.

    ``split`` returns the id of the schema, and the value, which still has the ``size`` bytes in front of it. ``add``
    puts them in front of a value. ``describe_unknown`` says in words that no schema has an id.
    """

    split: Callable[[bytes | None], tuple[int, bytes]]
    size: int
    add: Callable[[int, bytes], bytes]
    describe_unknown: Callable[[int], str]


def _describe_unknown(schema_id: int) -> str:
    return f"schema {schema_id} is not known"


def _split_nothing(value: bytes | None) -> tuple[int, bytes]:
    return 0, require_value(value)


def _add_nothing(_: int, value: bytes) -> bytes:
    return value


REGISTRY_FRAMING = Framing(split_frame, FRAME_SIZE, add_frame, _describe_unknown)
NO_FRAMING = Framing(_split_nothing, 0, _add_nothing, _describe_unknown)
"""That of values which one schema wrote; its id is 0."""
