"""Turn many records into verdicts: plain records on the fast path if it is available, all others on the strict path.

Both paths give the same rows, so the result does not show which path decoded a record. Pure: it runs on the driver
and, shipped by value, on Spark's executors.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow.compute import if_else

from lakehouse.decoding.element_verdicts import decode_elements
from lakehouse.decoding.judge import Verdict, judge
from lakehouse.decoding.memory import MAX_SLICE_MEMORY
from lakehouse.decoding.rules import Rules, column_memory
from lakehouse.decoding.staged import FILTERED
from lakehouse.decoding.unmapped_fields import UnmappedCounts, count_unmapped
from lakehouse.decoding.values import NO_PARTS, has_explicit_null
from lakehouse.decoding.verdict_arrays import (
    DecodedRecords,
    PartArrays,
    array_of,
    decoded_memory,
    plain_flags,
    records_of,
    verdict_array,
    without_oversized,
)

FastDecoder = Callable[[pa.Array, pa.Array | None, "Rules", PartArrays], Any]
"""``lakehouse.decoding.fast.plain_records.decode_plain``, which not every machine can import.

If the elements of an array are rows: ``lakehouse.decoding.fast.plain_elements.decode_plain_elements``.
"""


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
    per_row, per_byte = decoded_memory(rules)

    def split_range(begin: int, end: int) -> Iterator[tuple[int, int]]:
        count, middle = end - begin, (begin + end) // 2
        if count <= 1 or count * per_row + values[begin:end].nbytes * per_byte <= MAX_SLICE_MEMORY:
            yield begin, end
        else:
            yield from split_range(begin, middle)
            yield from split_range(middle, end)

    return split_range(0, len(values))


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
    ``null_erases`` whether it is an explicit null. If the elements of an array are rows, each has a verdict. If the
    first records take so much memory that more would not fit, only they get verdicts.
    """
    if rules.rows_from is not None:
        return decode_elements(values, broker_times, rules, decode_fast, parts)
    if decode_fast is None or rules.has_changes or not len(values):
        return _decode_strictly(values, broker_times, rules, parts, may_stop=rules.parser.is_packed)
    plain_records = decode_fast(without_oversized(values, rules), broker_times, rules, parts)
    count = len(plain_records.late)  # fewer than the values if these take much memory
    nulls = pa.nulls(count, pa.string())
    reasons = if_else(pa.array(plain_records.is_filtered), pa.scalar(FILTERED), nulls) if rules.where else nulls
    flags = plain_flags(rules, plain_records.is_rounded)
    fast_verdicts = verdict_array([reasons, nulls, plain_records.late, *plain_records.columns, *flags], rules)
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


def _decode_strictly(
    values: pa.Array, broker_times: pa.Array | None, rules: Rules, parts: PartArrays, *, may_stop: bool = False
) -> DecodedRecords:
    """Decode records one by one; with ``may_stop``, only the first ones if these take much memory."""
    records = records_of(values, broker_times, parts)
    verdicts, unmapped_counts = _judge_records(records, rules, may_stop=may_stop)
    return DecodedRecords(array_of(verdicts, rules), unmapped_counts)


def _judge_records(
    records: Iterable[tuple[Any, Any, Any]], rules: Rules, *, may_stop: bool
) -> tuple[list[Verdict], Counter[str]]:
    """Decode records one by one; the verdicts do not keep the parsed values."""
    verdicts: list[Verdict] = []
    memory_limits, erasing_fields = column_memory(rules), rules.null_erases
    unmapped_counts = UnmappedCounts(rules.mapped_fields)
    for value, broker_time, parts in records:
        verdict = judge(value, broker_time, rules, parts, memory_limits)
        has_values = bool(verdict.row) and not verdict.deletes
        explicit_nulls = tuple(
            [has_values and has_explicit_null(verdict.parsed or {}, field) for field in erasing_fields]
        )
        verdicts.append(verdict._replace(parsed=None, explicit_nulls=explicit_nulls, memory=0))
        if unmapped_counts.add(verdict.parsed, verdict.memory) and may_stop:
            break
    return verdicts, unmapped_counts.total()
