"""Read Protobuf strictly: the bytes of a record and its writer's schema give the values of its fields by name.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
Schemas are in the form of ``schemas``.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import WriterSchema
from lakehouse.decoding.formats.protobuf.bytes import read_zigzag
from lakehouse.decoding.formats.protobuf.messages import message_nodes
from lakehouse.decoding.formats.protobuf.nodes import ReadState
from lakehouse.decoding.formats.schema_parser import Reader

_MAX_INDEXES = 32  # the path to a message in a file: each is within the one before it


def reader_of(schema: WriterSchema, state: ReadState | None = None) -> Reader:
    """Return a reader of records of a schema; ``state`` has the memory of the record that was read last.

    The reader raises ``Rejection`` with one of the reasons ``truncated``, ``invalid_utf8``, ``duplicate_name``,
    ``invalid_protobuf``, ``unusable_schema`` and ``too_large``. This function raises ``Rejection`` with the reason
    ``unusable_schema`` if no record of the schema can be read.
    """
    record_state = state or ReadState()
    parts = json.loads(schema.text)
    roots: Sequence[Any] = parts["roots"]
    nodes = message_nodes(parts, record_state)
    if not roots:
        raise Rejection("unusable_schema", "it has no message")
    first_node = nodes[roots[0][0]]

    def read_record(data: bytes, start: int) -> dict[str, Any]:
        record_state.memory = record_state.level = 0
        try:
            if data[start] == 0:  # the short form for the first message
                return first_node.read(data, start + 1, len(data))
            indexes, pos = read_indexes(data, start)
            return nodes[root_name(roots, indexes)].read(data, pos, len(data))
        except (IndexError, struct.error):
            raise Rejection("truncated", f"the record ends after {len(data)} bytes, within a value") from None
        except RecursionError:
            raise Rejection("invalid_protobuf", "nested too deeply") from None

    return read_record


def read_indexes(data: bytes, pos: int) -> tuple[tuple[int, ...], int]:
    """Read the path of indexes to the message of a record in its file, and return it and the position of its end."""
    count, pos = read_zigzag(data, pos)
    if not 0 <= count <= _MAX_INDEXES:
        raise Rejection("invalid_protobuf", f"{count} message indexes, expected at most {_MAX_INDEXES}")
    indexes = []
    for _ in range(count):
        index, pos = read_zigzag(data, pos)
        indexes.append(index)
    return tuple(indexes) or (0,), pos


def root_name(roots: Sequence[Any], indexes: Sequence[int]) -> str:
    """The name of the message at a path of indexes; raises ``Rejection`` if there is none, or more than one."""
    name, inner_roots = "", roots
    for index in indexes:
        if not 0 <= index < len(inner_roots) or inner_roots[index] == []:
            raise Rejection("invalid_protobuf", f"the schema has no message with the indexes {list(indexes)}")
        if inner_roots[index] is None:
            detail = f"the message indexes {list(indexes)} mean different messages to different serializers"
            raise Rejection("unusable_schema", f"{detail}: move the message out of the one that contains it")
        name, inner_roots = inner_roots[index]
    return name
