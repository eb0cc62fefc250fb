"""Turn many records into verdicts: plain records on the fast path if it is available, all others on the strict path.

Both paths give the same rows, so the result does not show which path decoded a record. Pure: it runs on the driver
and, shipped by value, on Spark's executors.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow.compute import binary_length, if_else

from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.judge import Verdict, judge
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, MAX_SLICE_MEMORY
from lakehouse.decoding.rules import Rules, column_memory
from lakehouse.decoding.staged import (
    DELETED,
    DETAIL,
    EXPLICIT_NULL,
    FILTERED,
    LATE,
    REASON,
    ROWLESS,
    SEQUENCE,
    SNAPSHOT,
)
from lakehouse.decoding.unmapped_fields import count_unmapped
from lakehouse.decoding.values import NO_PARTS, has_explicit_null

PartArrays = Mapping[str, pa.Array]
"""The other parts of records that fields are read from, by part: binary; of a header the newest with its name."""
FastDecoder = Callable[[pa.Array, pa.Array | None, "Rules", PartArrays], Any]
"""``lakehouse.decoding.fast.plain_records.decode_plain``, which not every machine can import."""


_MAX_PARSED_MEMORY = 16 * 1000 * 1000  # bytes of parsed records that are kept until their unmapped fields are counted


class DecodedRecords(NamedTuple):
    """One verdict for each record, and the number of records with each unmapped field."""

    verdicts: pa.StructArray
    unmapped_counts: Counter[str]


def decode_slices(
    values: pa.Array,
    broker_times: pa.Array | None,
    rules: Rules,
    decode_fast: FastDecoder | None,
    parts: PartArrays = NO_PARTS,
) -> Iterator[DecodedRecords]:
    """Decode records like ``decode_values``, in slices that take little memory."""
    for begin, end in slice_bounds(values, rules):
        start, is_done = begin, False
        while not is_done:
            sliced_parts = {part: array[start:end] for part, array in parts.items()}
            times = None if broker_times is None else broker_times[start:end]
            decoded_records = decode_values(values[start:end], times, rules, decode_fast, sliced_parts)
            start += len(decoded_records.verdicts)
            is_done = start >= end
            yield decoded_records


def slice_bounds(values: pa.Array, rules: Rules) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each slice of records; the bytes of their values limit the memory of a slice."""
    per_row, per_byte = _decoded_memory(rules)

    def split_range(begin: int, end: int) -> Iterator[tuple[int, int]]:
        count, middle = end - begin, (begin + end) // 2
        if count <= 1 or count * per_row + values[begin:end].nbytes * per_byte <= MAX_SLICE_MEMORY:
            yield begin, end
        else:
            yield from split_range(begin, middle)
            yield from split_range(middle, end)

    return split_range(0, len(values))


def _decoded_memory(rules: Rules) -> tuple[int, int]:
    """Like ``column_memory``, with the memory of the parsed value."""
    per_row, per_byte = column_memory(rules)
    return per_row, per_byte + rules.parser.memory_by_byte


def _oversized_rows(values: pa.Array, rules: Rules) -> list[int]:
    """The rows of records that may take more memory than one record may; the strict path measures them exactly."""
    per_row, per_byte = _decoded_memory(rules)
    if len(values) * per_row + values.nbytes * per_byte <= MAX_RECORD_MEMORY:
        return []
    sizes = binary_length(values).fill_null(0).to_pylist()
    return [row for row, size in enumerate(sizes) if per_row + size * per_byte > MAX_RECORD_MEMORY]


def decode_values(
    values: pa.Array,
    broker_times: pa.Array | None,
    rules: Rules,
    decode_fast: FastDecoder | None,
    parts: PartArrays = NO_PARTS,
) -> DecodedRecords:
    """Decode records; ``broker_times`` are in microseconds since 1970, UTC, if the rules need them.

    A verdict has ``_reason`` and ``_detail`` (NULL if the record is valid; the reason ``staged.FILTERED`` does not
    reject it), ``_late``, a value for each field (NULL if the record is rejected), and for each field of
    ``null_erases`` whether it is an explicit null. If the first records take so much memory that more would not fit,
    only they get verdicts.
    """
    if decode_fast is None or rules.has_changes or not len(values):
        return _decode_strictly(values, broker_times, rules, parts, may_stop=rules.parser.is_packed)
    plain_records = decode_fast(_set_null(values, _oversized_rows(values, rules)), broker_times, rules, parts)
    count = len(plain_records.late)  # fewer than the values if these take much memory
    nulls = pa.nulls(count, pa.string())
    reasons = if_else(pa.array(plain_records.is_filtered), pa.scalar(FILTERED), nulls) if rules.where else nulls
    flags = [pa.repeat(pa.scalar(False), count) for _ in rules.flags]  # the strict path decodes these records
    fast_verdicts = _verdict_array([reasons, nulls, plain_records.late, *plain_records.columns, *flags], rules)
    unmapped_counts, rows = count_unmapped(plain_records.objects, rules.mapped_fields), plain_records.uncertain_rows
    if not rows:
        return DecodedRecords(fast_verdicts, unmapped_counts)
    del plain_records  # the strict path makes its own copy
    indices = pa.array(rows, pa.int64())
    strict_parts = {part: array.take(indices) for part, array in parts.items()}
    times = None if broker_times is None else broker_times.take(indices)
    strict = _decode_strictly(values.take(indices), times, rules, strict_parts)
    order = list(range(count))
    for index, row in enumerate(rows):
        order[row] = count + index
    verdicts = pa.concat_arrays([fast_verdicts, strict.verdicts]).take(pa.array(order, pa.int64()))
    return DecodedRecords(verdicts, unmapped_counts + strict.unmapped_counts)


def _set_null(values: pa.Array, rows: list[int]) -> pa.Array:
    """The values, with NULL in these rows."""
    if not rows:
        return values
    null_rows = set(rows)
    return if_else(pa.array(row not in null_rows for row in range(len(values))), values, None)


def _decode_strictly(
    values: pa.Array, broker_times: pa.Array | None, rules: Rules, parts: PartArrays, *, may_stop: bool = False
) -> DecodedRecords:
    """Decode records one by one; with ``may_stop``, only the first ones if these take much memory."""
    times = [None] * len(values) if broker_times is None else broker_times.to_pylist()
    part_rows = zip(*(array.to_pylist() for array in parts.values()), strict=True) if parts else repeat((), len(values))
    record_parts = (dict(zip(parts, part_row, strict=True)) for part_row in part_rows)
    records = zip(values.to_pylist(), times, record_parts, strict=True)
    verdicts, unmapped_counts = _judge_records(records, rules, may_stop=may_stop)
    columns = [
        pa.array([verdict.reason for verdict in verdicts], pa.string()),
        pa.array([verdict.detail for verdict in verdicts], pa.string()),
        pa.array([verdict.late for verdict in verdicts], pa.bool_()),
    ]
    for field in rules.fields:
        columns.append(pa.array([verdict.row.get(field.name) for verdict in verdicts], arrow_type(field.type)))
    columns += [
        pa.array([verdict.explicit_nulls[index] for verdict in verdicts], pa.bool_())
        for index in range(len(rules.null_erases))
    ]
    flags = {DELETED: [verdict.deletes for verdict in verdicts], ROWLESS: [verdict.is_rowless for verdict in verdicts]}
    columns += [pa.array(flags[name], pa.bool_()) for name in rules.flags]
    if rules.has_changes:
        columns.append(pa.array([verdict.sequence for verdict in verdicts], pa.int64()))
        columns.append(pa.array([verdict.snapshot for verdict in verdicts], pa.string()))
    return DecodedRecords(_verdict_array(columns, rules), unmapped_counts)


def _judge_records(
    records: Iterable[tuple[Any, Any, Any]], rules: Rules, *, may_stop: bool
) -> tuple[list[Verdict], Counter[str]]:
    """Decode records one by one; the verdicts do not keep the parsed values."""
    verdicts: list[Verdict] = []
    memory_limits, erasing_fields = column_memory(rules), rules.null_erases
    unmapped_counts, parsed, memory = Counter[str](), list[dict[str, Any]](), 0
    for value, broker_time, parts in records:
        verdict = judge(value, broker_time, rules, parts, memory_limits)
        has_values = bool(verdict.row) and not verdict.deletes
        explicit_nulls = tuple(
            [has_values and has_explicit_null(verdict.parsed or {}, field) for field in erasing_fields]
        )
        verdicts.append(verdict._replace(parsed=None, explicit_nulls=explicit_nulls, memory=0))
        memory += verdict.memory
        if verdict.parsed is not None:
            parsed.append(verdict.parsed)
        if memory > _MAX_PARSED_MEMORY:
            unmapped_counts += count_unmapped(parsed, rules.mapped_fields)
            parsed, memory = [], 0
            if may_stop:
                break
    return verdicts, unmapped_counts + count_unmapped(parsed, rules.mapped_fields)


def _verdict_array(columns: list[pa.Array], rules: Rules) -> pa.StructArray:
    names = [*(field.name for field in rules.fields), *(f"{EXPLICIT_NULL}{field.name}" for field in rules.null_erases)]
    names += [*rules.flags, *((SEQUENCE, SNAPSHOT) if rules.has_changes else ())]
    return pa.StructArray.from_arrays(columns, [REASON, DETAIL, LATE, *names])
