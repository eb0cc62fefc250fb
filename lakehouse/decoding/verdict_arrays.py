"""Verdicts as Arrow arrays, as Spark's workers return them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow.compute import binary_length, if_else

from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.judge import Verdict
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse.decoding.numbers import has_rounded
from lakehouse.decoding.rules import Rules, column_memory
from lakehouse.decoding.staged import (
    DELETED,
    DETAIL,
    EXPLICIT_NULL,
    INDEX,
    LATE,
    ORIGIN,
    REASON,
    ROUNDED,
    ROWLESS,
    SEQUENCE,
    SNAPSHOT,
)

PartArrays = Mapping[str, pa.Array]
"""The other parts of records that fields are read from, by part: binary; of a header the newest with its name."""


class DecodedRecords(NamedTuple):
    """The verdicts on records, and the number of records with each unmapped field.

    One verdict for each record, a struct. If the elements of an array are rows, a list of verdicts for each record.
    """

    verdicts: pa.StructArray | pa.ListArray
    unmapped_counts: Counter[str]


def records_of(
    values: pa.Array, broker_times: pa.Array | None, parts: PartArrays
) -> Iterator[tuple[bytes | None, Any, dict[str, Any]]]:
    """Yield the value of each record, its broker time, and its other parts."""
    times = [None] * len(values) if broker_times is None else broker_times.to_pylist()
    part_rows = zip(*(array.to_pylist() for array in parts.values()), strict=True) if parts else repeat((), len(values))
    record_parts = (dict(zip(parts, part_row, strict=True)) for part_row in part_rows)
    return zip(values.to_pylist(), times, record_parts, strict=True)


def array_of(verdicts: list[Verdict], rules: Rules, indices: list[int | None] | None = None) -> pa.StructArray:
    """Return verdicts as an array of structs; ``indices`` are the places of the rows in the arrays of their records."""
    columns = [
        pa.array([verdict.reason for verdict in verdicts], pa.string()),
        pa.array([verdict.detail for verdict in verdicts], pa.string()),
        pa.array([verdict.late for verdict in verdicts], pa.bool_()),
    ]
    for field in rules.fields:
        columns.append(pa.array([verdict.row.get(field.name) for verdict in verdicts], arrow_type(field.type)))
    columns += [
        pa.array([bool(verdict.explicit_nulls) and verdict.explicit_nulls[index] for verdict in verdicts], pa.bool_())
        for index in range(len(rules.null_erases))
    ]
    decimal_names = rules.decimal_names
    flags = {DELETED: [verdict.deletes for verdict in verdicts], ROWLESS: [verdict.is_rowless for verdict in verdicts]}
    flags[ROUNDED] = [any(has_rounded(verdict.row.get(name)) for name in decimal_names) for verdict in verdicts]
    columns += [pa.array(flags[name], pa.bool_()) for name in rules.marks]
    if rules.has_changes:
        columns.append(pa.array([verdict.sequence for verdict in verdicts], pa.int64()))
        columns.append(pa.array([verdict.snapshot for verdict in verdicts], pa.string()))
        columns.append(pa.array([verdict.origin for verdict in verdicts], pa.int64()))
    columns += [] if indices is None else [pa.array(indices, pa.int32())]
    return verdict_array(columns, rules)


def verdict_array(columns: list[pa.Array], rules: Rules) -> pa.StructArray:
    """Return the columns of verdicts, in their order, as one array."""
    names = [*(field.name for field in rules.fields), *(f"{EXPLICIT_NULL}{field.name}" for field in rules.null_erases)]
    names += [*rules.marks, *((SEQUENCE, SNAPSHOT, ORIGIN) if rules.has_changes else ())]
    names += [] if rules.rows_from is None else [INDEX]
    return pa.StructArray.from_arrays(columns, [REASON, DETAIL, LATE, *names])


def plain_flags(rules: Rules, is_rounded: pa.Array) -> list[pa.Array]:
    """Return the flags of plain records: the strict path decodes those that delete rows or are about none."""
    absent = pa.repeat(pa.scalar(False), len(is_rounded))
    return [is_rounded if name == ROUNDED else absent for name in rules.marks]


def decoded_memory(rules: Rules) -> tuple[int, int]:
    """Like ``column_memory``, with the memory of the parsed value."""
    per_row, per_byte = column_memory(rules)
    return per_row, per_byte + rules.parser.memory_by_byte


def without_oversized(values: pa.Array, rules: Rules) -> pa.Array:
    """Return values with NULL in place of those that may take more memory than a record may.

    The strict path measures them exactly.
    """
    per_row, per_byte = decoded_memory(rules)
    if len(values) * per_row + values.nbytes * per_byte <= MAX_RECORD_MEMORY:
        return values
    sizes = binary_length(values).fill_null(0).to_pylist()
    fits = [per_row + size * per_byte <= MAX_RECORD_MEMORY for size in sizes]
    return values if all(fits) else if_else(pa.array(fits), values, None)
