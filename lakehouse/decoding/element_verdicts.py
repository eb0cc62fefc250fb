"""Turn many records into the verdicts on their rows, if the elements of an array in each record are rows.

Pure: it runs on the driver and, shipped by value, on Spark's executors.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyarrow.compute import and_, indices_nonzero, invert, is_in

from lakehouse.decoding.elements import judge_elements
from lakehouse.decoding.judge import Verdict
from lakehouse.decoding.memory import MAX_SLICE_MEMORY
from lakehouse.decoding.rules import Rules, column_memory
from lakehouse.decoding.staged import NO_ROWS, REASON
from lakehouse.decoding.unmapped_fields import UnmappedCounts, count_unmapped
from lakehouse.decoding.verdict_arrays import (
    DecodedRecords,
    PartArrays,
    array_of,
    plain_flags,
    records_of,
    verdict_array,
    without_oversized,
)


def decode_elements(
    values: pa.Array, broker_times: pa.Array | None, rules: Rules, decode_fast: Any, parts: PartArrays
) -> DecodedRecords:
    """Decode the elements of records like ``verdicts.decode_values``, with the ``FastDecoder`` for elements.

    If the rows of the first records take so much memory that more would not fit, only they get verdicts.
    """
    if decode_fast is None or not len(values):
        return _judge_records(records_of(values, broker_times, parts), rules)
    plain = decode_fast(without_oversized(values, rules), broker_times, rules, parts)
    count = len(plain.late)
    flags = plain_flags(rules, plain.is_rounded)
    columns = [plain.reasons, pa.nulls(count, pa.string()), plain.late, *plain.columns, *flags, plain.indices]
    ends = [0, *accumulate(plain.counts)]
    verdicts = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), verdict_array(columns, rules))
    unmapped_counts = count_unmapped(plain.objects, rules.mapped_fields, rules.rows_from)
    rows = plain.uncertain_rows
    if not rows:
        return DecodedRecords(verdicts, unmapped_counts)
    del plain, columns  # the strict path makes its own copy
    places = pa.array(rows, pa.int64())
    times = None if broker_times is None else broker_times.take(places)
    records = records_of(values.take(places), times, {part: array.take(places) for part, array in parts.items()})
    strict = _judge_records(records, rules)
    if len(strict.verdicts) < len(rows):
        end = rows[len(strict.verdicts)]
        first_times = None if broker_times is None else broker_times[:end]
        first_parts = {part: array[:end] for part, array in parts.items()}
        return decode_elements(values[:end], first_times, rules, decode_fast, first_parts)
    order = list(range(len(verdicts)))
    for index, row in enumerate(rows):
        order[row] = len(verdicts) + index
    verdicts = pa.concat_arrays([verdicts, strict.verdicts]).take(pa.array(order, pa.int64()))
    return DecodedRecords(verdicts, unmapped_counts + strict.unmapped_counts)


def with_rows(verdicts: pa.ListArray, rows: pa.StructArray) -> pa.ListArray:
    """Return lists of the same lengths with other rows."""
    return pa.ListArray.from_arrays(verdicts.offsets, rows)


def first_rejected(verdicts: pa.ListArray) -> pa.Array:
    """Return which of the verdicts in lists of them is the first in its list that rejects."""
    reasons = verdicts.values.field(REASON)
    is_rejected = and_(reasons.is_valid(), invert(is_in(reasons, pa.array(NO_ROWS))))
    places = indices_nonzero(is_rejected).to_pylist()
    if not places:
        return pa.repeat(pa.scalar(False), len(reasons))
    offsets, is_first, begin = verdicts.offsets.to_pylist(), [False] * len(reasons), -1
    for place in places:
        if place >= begin:
            is_first[place] = True
            begin = offsets[bisect_right(offsets, place)]  # of the next list
    return pa.array(is_first)


def _judge_records(records: Iterable[tuple[Any, Any, Any]], rules: Rules) -> DecodedRecords:
    """Decode records one by one; only the first ones if their rows take much memory."""
    verdicts, indices, ends = list[Verdict](), list[int | None](), [0]
    memory_limits, memory = column_memory(rules), 0
    unmapped_counts = UnmappedCounts(rules.mapped_fields, rules.rows_from)
    for value, broker_time, parts in records:
        judged = judge_elements(value, broker_time, rules, parts, memory_limits)
        verdicts += judged.verdicts
        indices += range(len(judged.verdicts)) if judged.has_elements else [None]
        ends.append(len(verdicts))
        unmapped_counts.add(judged.parsed, judged.memory)
        memory += judged.row_memory + judged.memory
        if memory > MAX_SLICE_MEMORY:
            break
    rows = array_of(verdicts, rules, indices)
    return DecodedRecords(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), rows), unmapped_counts.total())
