"""The fast path decodes like the strict path: the same rows and the same reasons, without exception."""

from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings

from lakehouse.declaration import BrokerTime, Column, Late, RecordHeader, RecordKey
from lakehouse.decoding import verdicts
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.fast import plain_records
from lakehouse.decoding.fast.plain_records import decode_plain
from lakehouse.decoding.fields import BEYOND_HORIZON, REASONS, SCHEMA_REASONS, TIMELESS, Rejection
from lakehouse.decoding.judge import Rules, judge
from lakehouse.decoding.record_parts import TIME
from lakehouse.decoding.records import decode, parse
from lakehouse.decoding.staged import EXPLICIT_NULL
from lakehouse.decoding.times import judge_late
from lakehouse.decoding.values import has_explicit_null
from lakehouse.decoding.verdicts import decode_values
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.tables.written import (
    EDGES,
    NUMBERS,
    ODD_VALUES,
    TIME_TEXTS,
    TIMES,
    WHOLE_RECORDS,
    WrittenBatch,
    batches,
)

GOOD = b'{"latitude":51.5,"longitude":-0.099990845,"time":"2023-01-01T05:00","temperature_2m":10.4}'
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
    erasing_fields = [field for field in rules.fields if field.null_erases]
    nulls = {f"{EXPLICIT_NULL}{f.name}": bool(row) and has_explicit_null(parse(value), f) for f in erasing_fields}
    return verdict | {field.name: row.get(field.name) for field in rules.fields} | nulls


def decode_batch(batch: WrittenBatch) -> pa.StructArray:
    arrays = pa.array(batch.values, pa.binary()), pa.array(batch.broker_times, pa.int64())
    return decode_values(*arrays, batch.rules, decode_plain).verdicts


def exact_texts(row: dict[str, Any]) -> dict[str, str]:
    """Each value as exact text: with the sign of a zero, the places of a decimal, the offset of a time."""
    return {name: value.isoformat() if isinstance(value, date) else repr(value) for name, value in row.items()}


def decode_like_strictly(batch: WrittenBatch) -> list[dict[str, Any]]:
    """Decode, compare each row with the strict rules, down to the sign of a zero, and return the rows."""
    decoded_records = decode_batch(batch)
    decoded_records.validate(full=True)
    rows = decoded_records.to_pylist()
    for value, broker_time, row in zip(batch.values, batch.broker_times, rows, strict=True):
        assert exact_texts(row) == exact_texts(expected(value, broker_time, batch.rules)), value
    for field in batch.rules.fields:
        assert decoded_records.field(field.name).type == arrow_type(field.type)
    return rows


def one_column(column: Column, texts: list[str], late: Late | None = None) -> WrittenBatch:
    """One record for each text, with the text as the value of the column."""
    records: list[bytes | None] = [f'{{"n":{text}}}'.encode() for text in texts]
    return WrittenBatch(records, [10**15] * len(records), Rules((column.field,), late.rule if late else None))


def one_of_each_reason() -> WrittenBatch:
    day = Column("n", "DATE", "A day.", pattern="%Y-%m-%d", required=True)
    count = Column("few", "INT", "A count.", between=(0, 9))
    name = Column("text", "STRING", "A text.")
    texts = (
        '| |\xff|{"n":|{,|{}x|{"n":1,"n":1}|{"n":NaN}|1|{}|{"n":null}|{"n":1}|{"n":"1.1.23"}|{"n":"2023-02-29"}'
        '|{"n":"2023-02-28","few":10}|{"n":"2023-02-28","text":"\\ud800"}|{"n":"2023-02-27"}|{"n":"2023-02-28"}'
    )
    values = [None, *(text.encode("latin-1") for text in texts.split("|"))]
    late = Late("n", timedelta(days=1)).rule
    noon = 1_677_585_600_000_000  # of 28 February 2023
    return WrittenBatch(values, [noon] * len(values), Rules((day.field, count.field, name.field), late))


@pytest.mark.invariant("8.10")
def test_generated_and_damaged_records_of_every_type_have_equal_results() -> None:
    seen_reasons: set[str] = set()
    plain_count = 0

    @settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck), database=None)
    @given(batches())
    @example(one_of_each_reason())
    def compare(batch: WrittenBatch) -> None:
        nonlocal plain_count
        rows = decode_like_strictly(batch)
        seen_reasons.update(row["_reason"] for row in rows)
        arrays = pa.array(batch.values, pa.binary()), pa.array(batch.broker_times, pa.int64())
        plain_count += len(rows) - len(decode_plain(*arrays, batch.rules).uncertain_rows)
        fast, strict = (
            decode_values(*arrays, batch.rules, decoder).unmapped_counts for decoder in (decode_plain, None)
        )
        assert fast == strict

    compare()
    assert seen_reasons == {None, *REASONS} - {*SCHEMA_REASONS, TIMELESS, BEYOND_HORIZON, "too_large"}
    assert plain_count > 20


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("type_", [*NUMBERS, "STRING", "BOOLEAN"])
@pytest.mark.parametrize("between", [None, (0.1, 0.3), (-1, 12345.0), (2**53 + 1, 2**53 + 3)])
def test_every_odd_number_and_value_has_equal_results(type_: str, between: tuple[float, float] | None) -> None:
    if type_ not in NUMBERS:
        between = None
    decode_like_strictly(one_column(Column("n", type_, "A field.", between=between), [*EDGES, *ODD_VALUES]))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("pattern", [*TIMES, "%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%Y"])
@pytest.mark.parametrize("policy", ["accept", "reject"])
def test_every_odd_time_has_equal_results(pattern: str, policy: Any) -> None:
    column = Column("n", "TIMESTAMP", "A time.", pattern=pattern)
    decode_like_strictly(one_column(column, [*TIME_TEXTS, *ODD_VALUES], Late("n", timedelta(days=9000), policy)))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("epoch", ["seconds", "milliseconds", "microseconds", "days"])
def test_every_odd_number_that_is_a_time_has_equal_results(epoch: Any) -> None:
    type_ = "DATE" if epoch == "days" else "TIMESTAMP"
    edges = [-62135596801, -62135596800, 253402300799, 253402300800, -719163, -719162, 2932896, 2932897]
    texts = [str(edge * unit) + part for edge in edges for unit in (1, 10**3, 10**6) for part in ("", ".9999995")]
    decode_like_strictly(one_column(Column("n", type_, "A time.", epoch=epoch), [*EDGES, *ODD_VALUES, *texts]))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("path", [("a",), ("o", "a"), ("o", "o", "a")])
@pytest.mark.parametrize("rules", [{}, {"required": True}, {"default": "x"}])
def test_a_nested_value_has_equal_results_with_any_value_on_its_path(path: Any, rules: Any) -> None:
    column = Column("n", "STRING", "A text.", source=path, **rules)
    texts = [f'{{"o":{odd_text}}}' for odd_text in ODD_VALUES] + [
        f'{{"o":{{"o":{odd_text}}}}}' for odd_text in ODD_VALUES
    ]
    texts += ['{"o":{"a":"y","a":"z"}}', '{"o":{"a":"y"},"o":{"a":"y"}}', '{"o":{"a":"y"},"a":"z"}', '{"o.a":"y"}']
    # a default is not a string of the record, so it cannot balance the count for a duplicate name
    texts += ['{"b":1,"b":2}', '{"b":1,"b":2,"c":3}', '{"b":"a","b":"a"}', '{"a":"y","b":1,"b":1}']
    decode_like_strictly(
        WrittenBatch([text.encode() for text in texts], [None] * len(texts), Rules((column.field,), None))
    )


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("rules", [{}, {"required": True}, {"default": "x"}])
@pytest.mark.parametrize("former", ["b", ("o", "b")])
def test_a_value_under_its_former_name_has_equal_results(former: Any, rules: Any) -> None:
    column = Column("n", "STRING", "A text.", source="a", formerly=former, **rules)
    texts = [f'{{"a":{odd_text},"b":"y"}}' for odd_text in ODD_VALUES] + [
        f'{{"b":{odd_text}}}' for odd_text in ODD_VALUES
    ]
    texts += [f'{{"o":{odd_text}}}' for odd_text in ODD_VALUES] + [
        f'{{"o":{{"b":{odd_text}}}}}' for odd_text in ODD_VALUES
    ]
    texts += ['{"a":"y","b":1,"b":2}', '{"b":"y","b":"y"}', '{"a":"y","o":{"b":1}}', '{"c":"y","c":"y"}', "{}"]
    decode_like_strictly(
        WrittenBatch([text.encode() for text in texts], [None] * len(texts), Rules((column.field,), None))
    )


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize(
    ("type_", "default"),
    [("STRING", "7"), ("INT", 7), ("DOUBLE", 7), ("DECIMAL(9,3)", 7), ("BOOLEAN", True), ("TIMESTAMP", "2026")],
)
@pytest.mark.parametrize("rule", ["", "required", "default"])
def test_null_values_have_equal_results(type_: str, default: Any, rule: str) -> None:
    rules: dict[str, Any] = {"": {}, "required": {"required": True}, "default": {"default": default}}[rule]
    pattern = "%Y" if type_ == "TIMESTAMP" else None
    null_values = ("", "n/a", "-999", "1", "true", "-99.9", "9.96921e+36")
    column = Column("n", type_, "A field.", null_values=null_values, pattern=pattern, **rules)
    texts = ['"n/a"', '""', '"N/A"', '"-999"', "-999", "-999.0", "-9.99e2", "-999.0000000000000001", "1", '"true"']
    texts += ["-99.9", "-99.90", "-9.99e1", "-99.90000000000000000001", "-99.8", "9.96921e36"]
    decode_like_strictly(one_column(column, [*texts, "true", *EDGES, *ODD_VALUES]))


@pytest.mark.invariant("5.2", "8.10")
@pytest.mark.parametrize("path", [("n",), ("o", "n")])
def test_a_null_a_null_value_and_a_missing_field_are_distinguished(path: Any) -> None:
    column = Column(
        "n", "INT", "A.", source=path, formerly="was", null_values=("n/a", "-1"), keep=True, null_erases=True
    )
    inner_texts = [
        "{}",
        '{"n":null}',
        '{"n":"n/a"}',
        '{"n":-1}',
        '{"n":-1.0}',
        '{"n":5}',
        '{"was":null}',
        '{"was":"n/a"}',
    ]
    nested_texts = [f'{{"o":{text}}}' for text in inner_texts[:6]] + ['{"was":null}', '{"was":"n/a"}']
    texts = inner_texts if path == ("n",) else nested_texts
    texts += ['{"o":null}', '{"x":null}', '{"n":null,"was":5,"o":{"n":null}}']
    rows = decode_like_strictly(
        WrittenBatch([text.encode() for text in texts], [None] * len(texts), Rules((column.field,), None))
    )
    null_rows = [index for index, row in enumerate(rows) if row[f"{EXPLICIT_NULL}n"]]
    assert null_rows == [1, 6, *([8] if path == ("o", "n") else []), 10]  # a null on the path counts
    assert [row["_reason"] for row in rows] == [None] * len(texts)


@pytest.mark.invariant("8.10")
def test_a_value_of_another_type_with_a_default_does_not_hide_a_duplicate_name() -> None:
    name, count = Column("s", "STRING", "A text.", default="x"), Column("b", "INT", "A count.")
    records: list[bytes | None] = [b'{"s":5}', b'{"b":1,"b":2}']
    rows = decode_like_strictly(WrittenBatch(records, [None, None], Rules((name.field, count.field), None)))
    assert [row["_reason"] for row in rows] == ["wrong_type", "duplicate_name"]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("policy", ["accept", "reject"])
@pytest.mark.parametrize("limit", [timedelta(0), timedelta(days=1), timedelta.max])
def test_every_extreme_broker_time_has_equal_results(policy: Any, limit: timedelta) -> None:
    column = Column("n", "TIMESTAMP", "A time.", pattern="%Y")
    years = ['"0001"', '"1970"', '"9999"', "null"]
    for broker_time in (None, 0, 86_400_000_000, 86_400_000_001, 2**62, 2**63 - 1, -(2**62), -(2**63)):
        batch = one_column(column, years, Late("n", limit, policy))
        decode_like_strictly(WrittenBatch(batch.values, [broker_time] * len(years), batch.rules))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("depth", [1, 49, 50, 51, 300, 1015, 5000])
def test_unmapped_fields_may_be_nested_as_deeply_as_the_strict_rules_allow(depth: int) -> None:
    lists = f'{{"n":1,"o":{"[" * depth}"x"{"]" * depth}}}'
    objects, empty_lists = lists.replace("[", '{"o":').replace("]", "}"), lists.replace('"x"', "")
    rules = Rules((Column("n", "INT", "A count.").field,), None)
    decode_like_strictly(WrittenBatch([text.encode() for text in (lists, objects, empty_lists)], [None] * 3, rules))


def test_a_record_is_searched_once_even_if_it_has_many_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    searched_values: list[bytes] = []
    monkeypatch.setattr(plain_records, "_HUGE_EXPONENT", SimpleNamespace(search=searched_values.append))
    columns = [Column(f"n{number}", "DECIMAL(9,6)", "A number.", default=0) for number in range(9)]
    zeros = b"{" + b",".join(b'"n%d":0' % number for number in range(9)) + b"}"
    rules = Rules(tuple(column.field for column in columns), None)
    assert not decode_plain(pa.array([zeros, b"{}"], pa.binary()), None, rules).uncertain_rows
    assert searched_values == [zeros]


EPOCHS = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000}


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("unit", EPOCHS)
@pytest.mark.parametrize("rules", [{}, {"default": 1767225600}])
def test_present_day_times_defaults_and_nested_values_are_plain(unit: Any, rules: Any) -> None:
    time = Column("at", "TIMESTAMP", "A time.", epoch=unit, source=("o", "at"), **rules)
    money = Column("money", "DECIMAL(18,6)", "Money.", default=1)
    text = Column("text", "STRING", "A text.", source=("o", "text"))
    times = [f"{1_767_225_600 * EPOCHS[unit] + n}{part}" for n in range(50) for part in ("", ".25", ".123")]
    unmapped_fields = ["", ',"other":{"a":"x"}', ',"money":1000000000.5', ',"money":null']
    records: list[bytes | None] = [
        f'{{"o":{{"at":{number},"text":"x","{name}":"y"}}{unmapped_name}}}'.encode()
        for number in times
        for name in ("inside", "b")
        for unmapped_name in unmapped_fields
    ]
    batch = WrittenBatch(records, [None] * len(records), Rules((time.field, money.field, text.field), None))
    decode_like_strictly(batch)
    plain = decode_plain(pa.array(records, pa.binary()), None, batch.rules)
    assert not plain.uncertain_rows
    empty_records: list[bytes | None] = [b'{"o":{}}'] * 5
    if rules:
        assert not decode_plain(pa.array(empty_records, pa.binary()), None, batch.rules).uncertain_rows


PARTS = (
    (7).to_bytes(4, "big"),
    (-(2**62)).to_bytes(8, "big", signed=True),
    b"a\x7fb",
    b"\x0e",
    b"1",
    b"-0",
    b"0.5",
    b"1e3",
    b"0e9999999999",
    b"9" * 30,
    b"x",
    b"",
    b"\xff",
    b"true",
    b"null",
    b'"x"',
    b"2026-01-01",
)


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("type_", [*NUMBERS, "STRING", "BOOLEAN", "DATE", "TIMESTAMP"])
@pytest.mark.parametrize("rules", [{}, {"required": True}, {"default": True}])
@pytest.mark.parametrize("source", [RecordKey(), RecordKey("any_text"), RecordKey("big_endian"), RecordHeader("it's")])
def test_other_parts_of_a_record_have_equal_results(type_: str, rules: dict[str, Any], source: Any) -> None:
    if source == RecordKey("big_endian") and type_ not in ("INT", "BIGINT"):
        return
    time_format: dict[str, Any] = {"DATE": {"pattern": "%Y-%m-%d"}, "TIMESTAMP": {"epoch": "seconds"}}.get(type_, {})
    defaults = {"STRING": "x", "BOOLEAN": True, "DATE": "2026-01-01"}
    options = {"default": defaults.get(type_, 0)} if "default" in rules else rules
    column, other_column = (
        Column("n", type_, "A part.", source=source, **time_format, **options),
        Column("m", "INT", "A field."),
    )
    parts = pa.array([None, *PARTS], pa.binary())
    values = pa.array([b'{"m":1,"o":"x"}'] * len(parts), pa.binary())
    all_rules = Rules((column.field, other_column.field), None)
    fast, strict = (
        decode_values(values, None, all_rules, decoder, {source.part: parts}).verdicts
        for decoder in (decode_plain, None)
    )
    assert list(map(exact_texts, fast.to_pylist())) == list(map(exact_texts, strict.to_pylist()))
    assert {row["_reason"] for row in strict.to_pylist()} <= {
        None,
        "invalid_utf8",
        "invalid_text",
        "missing_field",
        *VALUE_REASONS,
    }


VALUE_REASONS = ("wrong_type", "wrong_time_format", "out_of_range")


@pytest.mark.invariant("8.10")
def test_every_extreme_broker_time_in_a_column_has_equal_results() -> None:
    column = Column("n", "TIMESTAMP", "Broker time.", source=BrokerTime())
    times = [None, 0, 1_767_225_600_123_000, 253_402_300_800_000_000, -(2**63), 2**63 - 1]
    rows = decode_like_strictly(WrittenBatch([b"{}"] * len(times), times, Rules((column.field,), None)))
    assert [row["_reason"] for row in rows] == [None] * 3 + ["out_of_range"] * 3
    assert rows[2]["n"].isoformat() == "2026-01-01T00:00:00.123000+00:00"


@pytest.mark.invariant("8.10")
def test_every_odd_value_has_equal_results_among_valid_records() -> None:
    records: list[bytes | None] = []
    for odd_text in (None, *WHOLE_RECORDS, *(GOOD[:cut] for cut in range(len(GOOD)))):
        records += [GOOD, odd_text]
    assert {row["_reason"] for row in decode_like_strictly(WrittenBatch(records, [None] * len(records), RULES))} > {
        None,
        "truncated",
    }


@pytest.mark.invariant("8.10", "13.3")
@pytest.mark.parametrize(
    "text",
    [
        '{"n":1,"n":2}',
        '{"n":1,"n":1}',
        '{"n":1,"\\u006e":2}',
        '{"n":1,"o":"\\"","o":"\\"\\""}',
        '{"n":1,"o":"\\\\","o":1}',
        '{"n":1,"o":{"a":1,"a":1}}',
        '{"n":1,"o":[{"a":"","a":""}]}',
        '{"n":null,"n":1}',
        '{"n":1,"n":null}',
        '{"":1,"n":2,"":3}',
    ],
)
def test_a_duplicate_name_is_detected(text: str) -> None:
    (row,) = decode_like_strictly(
        WrittenBatch([text.encode()], [None], Rules((Column("n", "INT", "A count.").field,), None))
    )
    assert row["_reason"] == "duplicate_name"


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary()])
def test_a_slice_of_an_array_is_decoded_like_the_whole(type_: pa.DataType) -> None:
    values = pa.array([GOOD, GOOD[:-1] + b',"latitude":51.5}', None, b'{"a":"\\"}', GOOD], type_)
    broker_times = pa.array([1, None, 3, 4, 5], pa.int64())
    all_verdicts = decode_values(values, broker_times, RULES, decode_plain).verdicts
    for begin in range(5):
        decoded_records = decode_values(values.slice(begin, 2), broker_times.slice(begin, 2), RULES, decode_plain)
        assert decoded_records.verdicts.equals(all_verdicts.slice(begin, 2))
    assert len(decode_values(values[:0], broker_times[:0], RULES, decode_plain).verdicts) == 0


@pytest.mark.parametrize(
    "odd_text",
    [
        b"{",
        b'{"latitude":"51.5","longitude":1,"time":"2023-01-01T05:00"}',
        b'{"latitude":1e19,"longitude":1,"time":1,"temperature_2m":12345678901234567890}',
        b'{"latitude":0.0000005,"longitude":1,"time":"2023-02-29T05:00"}',
        GOOD[:-1] + b',"other":1,"other":2}',
    ],
)
def test_only_the_record_that_is_not_plain_is_decoded_strictly(
    odd_text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict_values: list[bytes | None] = []

    def judge_and_note(value: bytes | None, *arguments: Any) -> Any:
        strict_values.append(value)
        return judge(value, *arguments)

    monkeypatch.setattr(verdicts, "judge", judge_and_note)
    valid_records = [
        GOOD,
        GOOD.replace(b"10.4", b"null"),
        GOOD[:-1] + b',"other":{"deep":["\\"\\""]}}',
        GOOD.replace(b",", b" ,\n"),
    ]
    records: list[bytes | None] = [*(valid_records * 2500)[:9999], odd_text]
    assert len(decode_batch(WrittenBatch(records, [None] * 10_000, RULES))) == 10_000
    assert strict_values == [odd_text]


@pytest.mark.invariant("8.10")
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "record",
    [
        b'{"n":1,"o":"' + b'\\"' * 500_000,
        b'{"n":1,"o":"' + b"\\\\" * 250_000 + b'"}',
        b'{"n":1,"o":"\\n' + b"a" * 1_000_000 + b'"}',
        b'{"n":' + b"1" * 1_000_000 + b"}",
        b'{"n":0.' + b"0" * 1_000_000 + b"1}",
        b"[" * 1_000_000,
        b'{"n":1,' + b'"o":1,' * 150_000 + b'"o":1}',
    ],
    ids=["escapes", "backslashes", "text", "number", "fraction", "nested", "names"],
)
def test_a_record_of_the_maximum_size_is_decoded_quickly(record: bytes) -> None:
    """Time in proportion to the square of its length would stop a table for half an hour, at each new start."""
    for type_ in ("BIGINT", "DOUBLE", "DECIMAL(9,2)"):
        decode_like_strictly(WrittenBatch([record], [0], Rules((Column("n", type_, "d").field,), None)))
