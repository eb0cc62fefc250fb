"""Decode records on the fast path and by the strict rules, and compare the results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.declaration import Column, Late, StreamTable
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Schemas, WriterSchema
from lakehouse.decoding.json_parsing import Native
from lakehouse.decoding.numbers import has_rounded
from lakehouse.decoding.record_parts import TIME
from lakehouse.decoding.records import decode, parse
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.staged import EXPLICIT_NULL
from lakehouse.decoding.times import judge_late
from lakehouse.decoding.values import has_explicit_null
from lakehouse.decoding.verdicts import DecodedRecords, decode_slices, decode_values
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.decoding.native import NATIVE, uncertain_records
from lakehouse_tests.helpers.tables.written import WrittenBatch

RULES = Rules(temperatures.fields, None)


def expected(value: bytes | None, broker_time: int | None, rules: Rules) -> dict[str, Any]:
    verdict: dict[str, Any] = {"_reason": None, "_detail": None, "_late": False}
    row: dict[str, Any] = {}
    try:
        decoded_row = decode(value, rules.fields, {TIME: broker_time})
        if rules.lateness and broker_time is not None:
            verdict["_late"] = judge_late(decoded_row, broker_time, rules.lateness)
        row = decoded_row
    except Rejection as rejection:
        is_late = rejection.reason == "late"
        verdict = {"_reason": rejection.reason, "_detail": rejection.detail, "_late": is_late}
    erasing_fields = [field for field in rules.fields if field.limits.null_erases]
    nulls = {f"{EXPLICIT_NULL}{f.name}": bool(row) and has_explicit_null(parse(value), f) for f in erasing_fields}
    flags = {name: any(has_rounded(row.get(decimal)) for decimal in rules.decimal_names) for name in rules.marks}
    return verdict | flags | {field.name: row.get(field.name) for field in rules.fields} | nulls


def decode_twice(
    values: Sequence[bytes | None],
    rules: Rules,
    parts: Mapping[str, Sequence[bytes | None]] = MappingProxyType({}),
    broker_times: Sequence[int | None] | None = None,
) -> DecodedRecords:
    """Decode records on the fast path and by the strict rules, require that all results are equal, and return them."""
    fast, strict = (_decode(decoder, values, rules, parts, broker_times) for decoder in (NATIVE, None))
    fast.verdicts.validate(full=True)
    assert fast.verdicts.type == strict.verdicts.type
    for value, row, strict_row in zip(values, fast.verdicts.to_pylist(), strict.verdicts.to_pylist(), strict=True):
        assert repr(row) == repr(strict_row), value
    assert fast.unmapped_counts == strict.unmapped_counts
    return strict


def _decode(
    decoder: Native | None,
    values: Sequence[bytes | None],
    rules: Rules,
    parts: Mapping[str, Sequence[bytes | None]],
    broker_times: Sequence[int | None] | None,
) -> DecodedRecords:
    times = None if broker_times is None else pa.array(broker_times, pa.int64())
    part_arrays = {part: pa.array(contents, pa.binary()) for part, contents in parts.items()}
    slices = [*decode_slices(pa.array(values, pa.binary()), times, rules, decoder, part_arrays)]
    return DecodedRecords(
        pa.concat_arrays([decoded.verdicts for decoded in slices]),
        sum((decoded.unmapped_counts for decoded in slices), Counter()),
    )


def rows_twice(values: Sequence[bytes | None], rules: Rules, *parts: Any) -> list[Any]:
    """The verdicts of ``decode_twice``."""
    return list(decode_twice(values, rules, *parts).verdicts.to_pylist())


def rows_of_keys(
    keys: Sequence[bytes | None],
    table: StreamTable,
    schemas: Mapping[int, WriterSchema] = MappingProxyType({}),
    value: bytes = b'{"n":1}',
) -> list[Any]:
    """The verdicts on records with these keys and one value, which both paths give."""
    return rows_twice([value] * len(keys), table.rules(Schemas({**schemas}, {})), {"key": keys})


def exact_texts(row: dict[str, Any]) -> dict[str, str]:
    """Each value as exact text: with the sign of a zero, the places of a decimal, the offset of a time."""
    return {name: value.isoformat() if isinstance(value, date) else repr(value) for name, value in row.items()}


def decode_like_strictly(batch: WrittenBatch) -> list[dict[str, Any]]:
    """Decode, compare each row with the strict rules, down to the sign of a zero, and return the rows."""
    arrays = pa.array(batch.values, pa.binary()), pa.array(batch.broker_times, pa.int64())
    decoded_records = decode_values(*arrays, batch.rules, NATIVE).verdicts
    decoded_records.validate(full=True)
    rows = decoded_records.to_pylist()
    for value, broker_time, row in zip(batch.values, batch.broker_times, rows, strict=True):
        assert exact_texts(row) == exact_texts(expected(value, broker_time, batch.rules)), value
    for field in batch.rules.fields:
        assert decoded_records.field(field.name).type == arrow_type(field.type)
    return rows


@st.composite
def spoiled(draw: st.DrawFn, values: st.SearchStrategy[bytes], replacements: Sequence[bytes]) -> bytes:
    """A value of which up to three bytes are replaced."""
    value = draw(values)
    start = draw(st.integers(0, len(value)))
    return value[:start] + draw(st.sampled_from(replacements)) + value[start + draw(st.integers(0, 3)) :]


def count_generated(batches: st.SearchStrategy[WrittenBatch]) -> Counter[str]:
    """Decode generated batches on both paths; count the rows, the valid ones, and those that the fast path decodes."""
    counts = Counter[str]()

    @settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck), database=None)
    @given(batches)
    def compare(batch: WrittenBatch) -> None:
        rows = decode_like_strictly(batch)
        decode_twice(batch.values, batch.rules)
        counts["rows"] += len(rows)
        counts["valid"] += sum(row["_reason"] is None for row in rows)
        uncertain_rows = uncertain_records(pa.array(batch.values, pa.binary()), None, batch.rules)
        counts["plain"] += len(rows) - len(uncertain_rows)

    compare()
    return counts


def batch_of(
    records: Sequence[str | bytes | None], *columns: Column, time: int | None = None, late: Late | None = None
) -> WrittenBatch:
    """Records of a table with these columns, which the broker received at one time."""
    values = [record.encode() if isinstance(record, str) else record for record in records]
    rules = Rules(tuple(column.field for column in columns), late.rule if late else None)
    return WrittenBatch(values, [time] * len(values), rules)


def one_column(column: Column, texts: list[str], late: Late | None = None) -> WrittenBatch:
    """One record for each text, with the text as the value of the column."""
    return batch_of([f'{{"n":{text}}}' for text in texts], column, time=10**15, late=late)
