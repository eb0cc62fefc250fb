"""The readers of Avro schemas, the memory of the values that they read, and unions with the names of their branches."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro.bytes import read_long
from lakehouse.decoding.memory import MemoryCounter, dict_memory

KIND = "AVRO"
"""The name of Avro schemas in a registry."""

Read = Callable[[bytes, int], tuple[Any, int]]
"""Read the value that begins at a position in the bytes; return it and the position of its end."""
_NAMED_TYPES = ("record", "enum", "fixed")


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


class NamedNodes(dict[str, Node], MemoryCounter):
    """Nodes of named schemas, which count the memory of the record that is being read.

    ``record_names`` are those of the records. ``has_named_branches``: a value of a union of several types is an object,
    whose only field names the branch.
    """

    def __init__(self, *, has_named_branches: bool = False) -> None:
        super().__init__()
        self.record_names: set[str] = set()
        self.has_named_branches = has_named_branches


def branch_names(branches: Sequence[Any]) -> list[str]:
    """The names of the branches of a union: their types, and the full names of named types.

    A name does not depend on the other branches, which the next version of a schema may have more of.
    """
    return list(map(type_name, branches))


def is_of_several_types(branches: Sequence[Any]) -> bool:
    """Whether a union has more types than null and another one."""
    return sum(type_name(branch) != "null" for branch in branches) > 1


def type_name(schema: Any) -> str:
    """The name of the type of a schema; in full if it is a named type."""
    if isinstance(schema, dict):
        return str(schema["name"]) if schema["type"] in _NAMED_TYPES else type_name(schema["type"])
    return schema if isinstance(schema, str) else "union"


def is_record_schema(schema: Any, nodes: NamedNodes) -> bool:
    """Whether each value of a schema is a record: it is a record, or a union of nothing but records."""
    if isinstance(schema, list):
        return bool(schema) and nodes.record_names.issuperset(map(type_name, schema))
    return isinstance(schema, dict) and schema.get("type") == "record"


def union_node(schema: Sequence[Any], branches: Sequence[Node], nodes: NamedNodes) -> Node:
    """Return the node of a union with these branches."""
    reads, memory = [branch.read for branch in branches], max((branch.memory for branch in branches), default=0)
    if nodes.has_named_branches and is_of_several_types(schema):
        pairs = zip(branch_names(schema), reads, strict=True)
        reads = [read if name == "null" else _named_branch(name, read) for name, read in pairs]
        memory += dict_memory(1)

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        branch, pos = read_long(data, pos)
        if not 0 <= branch < len(reads):
            raise Rejection("invalid_avro", f"branch {branch} of a union of {len(reads)}")
        return reads[branch](data, pos)

    return Node(read, memory=memory)


def _named_branch(name: str, read: Read) -> Read:
    """Return a function that reads a value as an object with this name as its only field."""

    def read_branch(data: bytes, pos: int) -> tuple[Any, int]:
        value, pos = read(data, pos)
        return {name: value}, pos

    return read_branch
