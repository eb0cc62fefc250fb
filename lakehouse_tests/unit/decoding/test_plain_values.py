"""The fast path decodes single values like the strict path: the same values and the same reasons, without exception."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import BrokerTime, Column, Late, RecordHeader, RecordKey, Time
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.staged import EXPLICIT_NULL
from lakehouse_tests.helpers.decoding.both_paths import batch_of, decode_like_strictly, decode_twice, one_column
from lakehouse_tests.helpers.decoding.native import uncertain_records
from lakehouse_tests.helpers.tables.written import EDGES, NUMBERS, ODD_VALUES, TIME_TEXTS, TIMES, WrittenBatch


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
    column = Column("n", "TIMESTAMP", "A time.", written=Time(pattern))
    decode_like_strictly(one_column(column, [*TIME_TEXTS, *ODD_VALUES], Late("n", timedelta(days=9000), policy)))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("epoch", ["seconds", "milliseconds", "microseconds", "nanoseconds", "days"])
def test_every_odd_number_that_is_a_time_has_equal_results(epoch: Any) -> None:
    type_ = "DATE" if epoch == "days" else "TIMESTAMP"
    edges = [-62135596801, -62135596800, 253402300799, 253402300800, -719163, -719162, 2932896, 2932897]
    texts = [
        str(edge * unit) + part for edge in edges for unit in (1, 10**3, 10**6, 10**9) for part in ("", ".9999995")
    ]
    texts += [str(sign * number) for sign in (1, -1) for number in (499, 500, 501, 1499, 1500, 2**63 - 1, 2**63)]
    decode_like_strictly(
        one_column(Column("n", type_, "A time.", written=Time(epoch=epoch)), [*EDGES, *ODD_VALUES, *texts])
    )


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
    decode_like_strictly(batch_of(texts, column))


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
    decode_like_strictly(batch_of(texts, column))


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
    column = Column("n", type_, "A field.", null_values=null_values, written=Time(pattern), **rules)
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
    rows = decode_like_strictly(batch_of(texts, column))
    null_rows = [index for index, row in enumerate(rows) if row[f"{EXPLICIT_NULL}n"]]
    assert null_rows == [1, 6, *([8] if path == ("o", "n") else []), 10]  # a null on the path counts
    assert [row["_reason"] for row in rows] == [None] * len(texts)


def test_a_former_path_through_a_number_rejects_only_its_record_if_nulls_erase() -> None:
    column = Column("n", "INT", "A.", formerly=("was", "n"), keep=True, null_erases=True)
    rows = decode_like_strictly(batch_of(['{"was":5}', '{"n":null}'], column))
    assert [(row["_reason"], row[f"{EXPLICIT_NULL}n"]) for row in rows] == [("wrong_type", False), (None, True)]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("policy", ["accept", "reject"])
@pytest.mark.parametrize("limit", [timedelta(0), timedelta(days=1), timedelta.max])
def test_every_extreme_broker_time_has_equal_results(policy: Any, limit: timedelta) -> None:
    column = Column("n", "TIMESTAMP", "A time.", written=Time("%Y"))
    years = ['"0001"', '"1970"', '"9999"', "null"]
    for broker_time in (None, 0, 86_400_000_000, 86_400_000_001, 2**62, 2**63 - 1, -(2**62), -(2**63)):
        records = [f'{{"n":{year}}}' for year in years]
        decode_like_strictly(batch_of(records, column, time=broker_time, late=Late("n", limit, policy)))


EPOCHS = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 10**9}


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("unit", EPOCHS)
@pytest.mark.parametrize("rules", [{}, {"default": 1767225600}])
def test_present_day_times_defaults_and_nested_values_are_plain(unit: Any, rules: Any) -> None:
    time = Column("at", "TIMESTAMP", "A time.", written=Time(epoch=unit), source=("o", "at"), **rules)
    money = Column("money", "DECIMAL(18,6)", "Money.", default=1)
    text = Column("text", "STRING", "A text.", source=("o", "text"))
    fractions = ("",) if unit == "nanoseconds" else ("", ".25", ".123")
    times = [f"{1_767_225_600 * EPOCHS[unit] + n}{part}" for n in range(50) for part in fractions]
    unmapped_fields = ["", ',"other":{"a":"x"}', ',"money":1000000000.5', ',"money":null']
    records: list[bytes | None] = [
        f'{{"o":{{"at":{number},"text":"x","{name}":"y"}}{unmapped_name}}}'.encode()
        for number in times
        for name in ("inside", "b")
        for unmapped_name in unmapped_fields
    ]
    batch = batch_of(records, time, money, text)
    decode_like_strictly(batch)
    assert not uncertain_records(pa.array(records, pa.binary()), None, batch.rules)
    empty_records: list[bytes | None] = [b'{"o":{}}'] * 5
    if rules:
        assert not uncertain_records(pa.array(empty_records, pa.binary()), None, batch.rules)


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
    time_format = {"DATE": Time("%Y-%m-%d"), "TIMESTAMP": Time(epoch="seconds")}.get(type_)
    defaults = {"STRING": "x", "BOOLEAN": True, "DATE": "2026-01-01"}
    options = {"default": defaults.get(type_, 0)} if "default" in rules else rules
    column, other_column = (
        Column("n", type_, "A part.", source=source, written=time_format, **options),
        Column("m", "INT", "A field."),
    )
    parts = [None, *PARTS]
    all_rules = Rules((column.field, other_column.field), None)
    decoded = decode_twice([b'{"m":1,"o":"x"}'] * len(parts), all_rules, {source.part: parts})
    assert {row["_reason"] for row in decoded.verdicts.to_pylist()} <= {
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
