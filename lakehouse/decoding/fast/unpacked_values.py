"""Unpack the values of many records, so that they are decoded like values that were never packed."""

import pyarrow as pa

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, MAX_SLICE_MEMORY
from lakehouse.decoding.rules import Rules, column_memory


def unpack_values(values: pa.Array, rules: Rules) -> tuple[pa.Array, Rules]:
    """Return the unpacked values, and the rules for them; fewer values if more would take much memory.

    A value is NULL if it cannot be unpacked, or may take too much memory: the strict rules decide about it.
    """
    parser = rules.parser
    per_row, per_byte = column_memory(rules)
    per_byte += parser.memory_by_byte
    unpacked_values: list[bytes | None] = []
    total = 0
    for value in values.to_pylist():
        try:
            unpacked = parser.unpack(value)
        except Rejection:
            unpacked = None
        memory = per_row + len(unpacked or b"") * per_byte
        total += memory
        if total > MAX_SLICE_MEMORY and unpacked_values:
            break
        unpacked_values.append(unpacked if memory <= MAX_RECORD_MEMORY else None)
    return pa.array(unpacked_values, pa.large_binary()), rules._replace(parser=parser.inner)
