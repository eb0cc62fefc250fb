"""How values of Avro are read: what follows from a schema for them, and what they take in memory.

Pure and self-contained (the standard library only), as ``avro_reader``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from lakehouse.decoding.memory import MOST_OF_ONE, too_large

KIND = "AVRO"
"""What a registry calls a schema of Avro."""

Read = Callable[[bytes, int], tuple[Any, int]]
"""Read a value that begins at a place in the bytes: the value, and the place behind it."""


class Node(NamedTuple):
    """How values of a schema are read, whether each takes a byte at least, and how many in it take none.

    ``around`` counts records of which each holds nothing that takes a byte but the next one. ``room`` is how many
    bytes of memory a value takes, but for its bytes in the record and for what counts itself as it is read.
    """

    read: Read
    takes: bool = True
    empty: int = 0
    around: int = 0
    room: int = 0


class Named(dict[str, Node]):
    """Nodes of named schemas, and how many bytes of memory the record that is read takes so far."""

    made = 0


def spend(named: Named, room: int) -> None:
    """Count what is made, before it is: a byte may stand for many records, which no memory holds."""
    named.made += room
    if named.made > MOST_OF_ONE:
        raise too_large()
