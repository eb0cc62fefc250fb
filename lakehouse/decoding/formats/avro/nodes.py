"""The readers of Avro schemas, and the memory of the values that they read.

Pure and self-contained (the standard library only), like ``reader``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from lakehouse.decoding.memory import MAX_RECORD_MEMORY, too_large_rejection

KIND = "AVRO"
"""The name of Avro schemas in a registry."""

Read = Callable[[bytes, int], tuple[Any, int]]
"""Read the value that begins at a position in the bytes; return it and the position of its end."""


class Node(NamedTuple):
    """How values of a schema are read.

    ``has_bytes`` says that every value has at least one byte, and ``empty_values`` counts the values without a byte in
    one value. ``wrappers`` counts nested records whose only value with bytes is the next record. ``memory`` is the
    memory of a value, without its bytes in the record and without what is counted while it is read.
    """

    read: Read
    has_bytes: bool = True
    empty_values: int = 0
    wrappers: int = 0
    memory: int = 0


class NamedNodes(dict[str, Node]):
    """Nodes of named schemas; ``memory`` is the memory in bytes of the record that is being read.

    ``record_names`` are those of the records. ``has_named_branches``: a value of a union of several types is an object,
    whose only field names the branch.
    """

    memory = 0

    def __init__(self, *, has_named_branches: bool = False) -> None:
        super().__init__()
        self.record_names: set[str] = set()
        self.has_named_branches = has_named_branches


def add_memory(nodes: NamedNodes, memory: int) -> None:
    """Count memory before it is used; one byte may describe so many records that no memory is large enough."""
    nodes.memory += memory
    if nodes.memory > MAX_RECORD_MEMORY:
        raise too_large_rejection()
