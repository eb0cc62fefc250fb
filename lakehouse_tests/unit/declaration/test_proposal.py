"""What a first declaration is made of: it fits the records it was made from, and says what they do not tell."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Rejection, StreamTable
from lakehouse.declaration.inference.proposal import Proposal, propose
from lakehouse.decoding.records import parse
from lakehouse.decoding.values import convert
from lakehouse.examples.samples.temperature_records import TemperatureSamples

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
TIMES = st.datetimes().map(lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ"))
NAMES = (
    st.sampled_from(["id", "eventId", "event_id", "at", "Price", "class", "x y", "_y", "é", "order_id", "1st"])
    | st.text()
)
OBJECTS = st.dictionaries(NAMES, SCALARS | TIMES | st.lists(SCALARS, max_size=2) | st.dictionaries(NAMES, SCALARS))


def of(*objects: Any) -> Proposal:
    return propose([json.dumps(each).encode() for each in objects])


def types(proposal: Proposal) -> dict[str, str]:
    return {column.name: column.type for column in proposal.columns}


@example([{"id": 1e300}])
@example([{"at": 5e-324}, {"at": 1.5}])
@example([{"at": 1.0000000000000000000000000000000000001e-30}, {"at": 100.5}])
@example([{"id": 1, "text": "\ud800"}])
@given(st.lists(OBJECTS | SCALARS, max_size=6))
def test_whatever_is_proposed_is_a_table_that_every_object_enters(objects: list[Any]) -> None:
    values = [json.dumps(each).encode() for each in objects]
    proposal = propose(values)
    assert proposal.unread == sum(not isinstance(each, dict) for each in objects)
    if not proposal.key:
        return
    table = StreamTable("t", "t", "", proposal.columns, proposal.key)
    for value, each in zip(values, objects, strict=True):
        if isinstance(each, dict):
            table.decode(value)


def test_of_the_sample_weather_it_is_what_a_person_declared_but_for_the_key_that_no_name_tells() -> None:
    proposal = propose(TemperatureSamples().stream())
    assert types(proposal) == {
        "latitude": "DOUBLE",
        "longitude": "DOUBLE",
        "time": "TIMESTAMP",
        "temperature_2m": "DOUBLE",
    }
    pattern, required = {c.name: c.pattern for c in proposal.columns}, {c.name for c in proposal.columns if c.required}
    assert pattern["time"] == "%Y-%m-%dT%H:%M"
    assert required == {"latitude", "longitude", "time"}
    assert (proposal.key, proposal.month_of) == ((), None)
    assert any("No field that every record has is named as the id of a thing" in each for each in proposal.doubts)


@pytest.mark.parametrize(
    ("held", "type_"),
    [
        ([True, False], "BOOLEAN"),
        ([1, -(2**62)], "BIGINT"),
        ([1, 2**63], "DECIMAL(38,0)"),
        ([1, 2.5], "DOUBLE"),
        (["2026-01-01", "2026-02-28"], "DATE"),
        (["2026-01-01", "2026-02-30"], "STRING"),
        (["2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.123456Z"], "TIMESTAMP"),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:00:00"], "STRING"),
        (["a", "1"], "STRING"),
        ([["a"], [], [None]], "ARRAY<STRING>"),
        ([{f"user_{n}": 1.5} for n in range(9)], "MAP<STRING, DOUBLE>"),
        ([[{f"user_{n}": 1} for n in range(3_000)]], "ARRAY<MAP<STRING, BIGINT>>"),
        ([[{"n": 1, "on": "2026-01-01"}], [{"n": None}, None]], "ARRAY<STRUCT<n: BIGINT, on: STRING>>"),
    ],
)
def test_a_type_is_that_of_all_values(held: list[Any], type_: str) -> None:
    assert types(of(*({"id": n, "it": value} for n, value in enumerate(held))))["it"] == type_


@pytest.mark.parametrize(
    ("field", "values", "doubt"),
    [
        ("it", [1, "1"], "holds numbers and texts"),
        ("it", [{}, {}], "holds objects"),
        ("it", [["a"], [1]], "holds arrays"),
        ("it", [[{"a-b": 1}]], "holds arrays"),
        ("it", [[{"a": 1, "b": None, "A": 2, "c-d": 3}]], "'it[].A', 'it[].b', 'it[].c-d'"),
        ("it", [[{"a: INT, b": "secret"}]], "holds arrays"),
        ("it", [json.loads("[" * 400 + "]" * 400)], "holds arrays"),
        ("it", [{"a": 1}, 5], "holds numbers and objects"),
        ("it", [None, None], "always null"),
        ("Ж", [1, 2], "no column can be named so"),
        ("seen_at", [1767225600, 1767225601], "in seconds since 1970"),
        ("seen_at", [1767225600123, 1767225601123], "in milliseconds since 1970"),
        ("seen_at", [1767225600123456], "in microseconds since 1970"),
        ("it", [1.5, 2.5], "DECIMAL"),
    ],
)
def test_what_records_do_not_tell_is_said(field: str, values: list[Any], doubt: str) -> None:
    proposal = of(*({"id": n, field: value} for n, value in enumerate(values)))
    assert any(doubt in each for each in proposal.doubts), proposal.doubts


def test_a_field_that_no_column_can_be_named_after_keeps_its_name_as_source() -> None:
    (column,) = of({"eventId": 1}, {"eventId": 2}).columns
    assert (column.name, column.source) == ("event_id", "eventId")


def test_numbers_that_would_be_times_of_our_days_are_where_they_are_named_so() -> None:
    columns = of({"id": 1767225600, "at": 1767225600000, "n_ms": 5, "paid_ts": 1767225600}).columns
    assert [(each.name, each.type, each.epoch) for each in columns] == [
        ("id", "BIGINT", None),
        ("at", "TIMESTAMP", "milliseconds"),
        ("n_ms", "BIGINT", None),
        ("paid_ts", "TIMESTAMP", "seconds"),
    ]


def test_a_number_finer_than_a_microsecond_is_no_time_as_two_would_be_one() -> None:
    (column,) = propose([b'{"at": 1767225600.0000001}', b'{"at": 1767225600.0000002}']).columns
    assert (column.type, column.epoch) == ("DECIMAL(38,7)", None)
    (column,) = propose([b'{"at": 1767225600.000001}', b'{"at": 1767225600.000002}']).columns
    assert (column.type, column.epoch) == ("TIMESTAMP", "seconds")


def test_fields_within_fields_are_columns_with_the_names_that_lead_to_them() -> None:
    proposal = of({"id": 1, "to": {"name": "a", "at": {"Zip": 5}}}, {"id": 2, "to": {"name": "b", "at": {"Zip": 6}}})
    assert [(each.name, each.source, each.type, each.required) for each in proposal.columns] == [
        ("id", None, "BIGINT", True),
        ("to_name", ("to", "name"), "STRING", True),
        ("to_at_zip", ("to", "at", "Zip"), "BIGINT", True),
    ]


def test_an_object_that_is_sometimes_empty_is_one_that_sometimes_has_no_value() -> None:
    found = of({"id": 1, "g": {"a": 1}}, {"id": 2, "g": {}}, {"id": 3, "g": None}).columns
    assert [(each.name, each.required) for each in found] == [("id", True), ("g_a", False)]


def test_fields_that_would_have_one_name_are_told_apart_by_where_they_are() -> None:
    proposal = of({"a_id": 5, "a": {"id": 1}}, {"a_id": 5, "a": {"id": 2}})
    assert [each.source for each in proposal.columns] == [None]
    assert any("Fields 'a_id', 'a.id' would each be column a_id" in each for each in proposal.doubts)


@pytest.mark.parametrize(("name", "month_of"), [("month", None), ("moon", "paid_at")])
def test_a_month_whose_name_is_taken_parts_nothing(name: str, month_of: str | None) -> None:
    times = [{"id": 5, "paid": {"at": f"2026-01-01T00:0{n}", name: n}} for n in (1, 2)]
    assert (of(*times).key, of(*times).month_of) == (("id", "paid_at"), month_of)


def test_the_key_is_the_id_that_tells_records_apart_or_the_fewest() -> None:
    assert of({"a": "x", "order_id": 1}, {"a": "y", "order_id": 2}).key == ("order_id",)
    assert of({"customer_id": 1, "id": 5}, {"customer_id": 2, "id": 6}).key == ("id",)
    assert of({"id": 1, "line_id": 1}, {"id": 1, "line_id": 2}, {"id": 2, "line_id": 1}).key == ("id", "line_id")
    updates = of({"id": 1, "v": None}, {"id": 1, "v": True}, {"id": 2, "v": True})
    assert updates.key == ("id",)
    assert any("taken for updates" in doubt for doubt in updates.doubts)


@pytest.mark.parametrize(
    "held",
    [
        {"price": [9.5, 10.5, 11.5]},
        {"price": [9, 10, 11]},
        {"at": ["01.02.2026 10:00", "01.02.2026 10:01", "01.02.2026 10:02"]},
        {"time_key": ["2026-01-01 10:00 h", "2026-01-01 10:01 h", "2026-01-01 10:02 h"]},
        {"at": ["2026-01-01T10:00:00Z", "2026-01-01T10:01:00Z", "2026-01-01T10:02:00Z"]},
        {"txId": [570, 571, 572]},
        {"transaction_id": ["a", "b", "c"]},
        {"trace_id": ["a", "b", "c"]},
        {"id": [1.5, 2.5, 3.5]},
        {"name": ["a", "b", "c"]},
        {"order_id": [1, 2, 3], "customer_id": [4, 5, 6]},
        {"order_id": [1, 1, 2], "status": ["new", "paid", "new"]},
        {"order_id": [1, 1, 2], "price": [1.5, 2.5, 3.5]},
        {"id": [True, False, True]},
    ],
)
def test_what_cannot_be_justified_is_no_key(held: dict[str, list[Any]]) -> None:
    proposal = of(*(dict(zip(held, each, strict=True)) for each in zip(*held.values(), strict=True)))
    assert proposal.key == ()
    assert any("each record is a row, in a log table" in each for each in proposal.doubts)


def test_records_of_one_id_that_lack_fields_of_others_are_no_updates() -> None:
    assert of({"id": 1, "a": 1}, {"id": 1, "a": None}, {"id": 2, "a": 1}).key == ("id",)
    assert of({"id": 1, "a": 1, "b": 1}, {"id": 1, "b": 2}, {"id": 2, "a": 1, "b": 1}).key == ()


ORDER = {"id": 1, "total": 5, "customer": "Ann"}
REFUND = {"id": 1, "reason": "late"}


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ([ORDER | {"type": "order"}, REFUND | {"type": "refund"}], "by 'type': 'order' (1), 'refund' (1)"),
        (
            [{"id": n, "meta": {"eventType": "ab"[n % 2]}, "ab"[n % 2]: n} for n in range(5)],
            "by 'meta.eventType': 'a' (3), 'b' (2)",
        ),
        (
            [{"id": n, "kind": "ab"[n % 2], "a": None, "b": None} | {"ab"[n % 2]: n} for n in range(5)],
            "by 'kind': 'a' (3), 'b' (2)",
        ),
        ([ORDER, REFUND, REFUND | {"id": 2}], "by their fields: customer, total (1); reason (2)"),
        ([{"id": n, "type": None, "abcde"[n % 5]: n} for n in range(9)], "by their fields: a (2); b (2)"),
        (
            [{"id": 1, **{f"a{n}": n for n in range(6)}}, {"id": 1, "b": 1}],
            "by their fields: a0, a1, a2, a3 and 2 more (1); b (1)",
        ),
    ],
)
def test_records_of_several_types_are_named_and_have_no_key(objects: list[Any], told: str) -> None:
    proposal = of(*objects)
    assert proposal.key == ()
    assert any(told in each for each in proposal.doubts), proposal.doubts


@pytest.mark.parametrize(
    "objects",
    [
        [{"id": 1, "type": "car", "doors": 5}, {"id": 2, "type": "van", "doors": 3}],
        [{"id": 1, "a": 1}, {"id": 2, "b": 1}, {"id": 3, "a": 1, "b": 1}],
        [{"id": 1, "a": 1}, {"id": 2, "b": 1}, {"id": 3}],
        [{"id": 1, "a": 1, "b": None}, {"id": 2, "a": None, "b": 1}],
    ],
)
def test_records_of_which_some_have_no_value_are_of_one_type(objects: list[Any]) -> None:
    proposal = of(*objects)
    assert proposal.key == ("id",)
    assert not any("several types" in each for each in proposal.doubts)


FEW = st.fixed_dictionaries(
    {"id": st.integers(0, 2)},
    optional={
        name: st.none() | st.sampled_from(["x", 1.5, "2026-01-01", 7]) for name in ("type", "at", "price", "line_id")
    },
)


@given(st.lists(FEW, max_size=6))
def test_no_record_overwrites_with_nothing_what_another_of_its_key_told(objects: list[dict[str, Any]]) -> None:
    proposal = of(*objects)
    stored: dict[Any, dict[str, Any]] = {}
    for each in {repr(each): each for each in objects}.values() if proposal.key else ():
        row = stored.setdefault(tuple(each[name] for name in proposal.key), {})
        told = {name for name, value in row.items() if value is not None}
        assert told & {*types(proposal)} <= {*each}
        row.clear()
        row.update(each)


def test_of_several_ids_that_repeat_a_time_that_differs_by_chance_is_no_key() -> None:
    lines = [{"order_id": n % 2, "product_id": n // 2, "sold_at": 1_767_225_600_000 + n} for n in range(4)]
    assert of(*lines).key == ("order_id", "product_id")


def test_an_id_that_repeats_is_in_the_key_with_its_time_and_told() -> None:
    stages = [{"order_id": n % 2, "status": "ab"[n // 2], "updated_at": f"2026-01-01T00:0{n}:00Z"} for n in range(4)]
    proposal = of(*stages)
    assert proposal.key == ("order_id", "updated_at")
    assert any("order_id repeats: where records of one are updates" in doubt for doubt in proposal.doubts)


@pytest.mark.parametrize(
    "times",
    [
        *(["2026-01-01T00:00:00+02:00"], ["2026-01-01T10:00:00.5+00:00", "2026-01-01T10:00:00+00:00"], ["20260131"]),
        *(["31.01.2026"], ["01/31/2026 12:00"], ["Tue, 24 Nov 2026 02:17:17 GMT"], ["1767225600000"]),
    ],
)
def test_a_text_that_looks_like_a_time_is_told(times: list[str]) -> None:
    proposal = of(*({"id": n, "at": time} for n, time in enumerate(times)))
    assert types(proposal)["at"] == "STRING"
    assert any("at looks like a time" in doubt for doubt in proposal.doubts)


def test_what_every_record_has_and_whole_numbers_are_told_as_guesses() -> None:
    doubts = of({"id": 1, "price": 10}).doubts
    assert any("drop required=True" in doubt for doubt in doubts)
    assert any(doubt.startswith("price: whole numbers so far") for doubt in doubts)


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        (["1" * 38], "DECIMAL(38,0)"),
        (["1" * 40], None),
        (["1" + "0" * 39, "5"], None),
        (["1" * 40, "1.5"], None),
        (["0.1234567890123456789", "12345.5"], "DECIMAL(38,19)"),
        (["1." + "3" * 37], "DECIMAL(38,37)"),
        (["1." + "3" * 38], None),
        (["0.10000000000000001", "0.1", "1e300"], "DOUBLE"),
        (["0.1000000000000000055511151231257827021181583404541015625", "-0.0", "5e-324"], "DOUBLE"),
    ],
)
def test_a_number_keeps_every_digit_or_is_left_out(written: list[str], type_: str | None) -> None:
    proposal = propose([f'{{"id": {n}, "n": {each}}}'.encode() for n, each in enumerate(written)])
    assert types(proposal).get("n") == type_
    left_out = "Field 'n' is left out: it holds numbers of more digits than any type has."
    assert (left_out in proposal.doubts) == (type_ is None)
    for column in proposal.columns if type_ else ():
        found = [value_of(column, each) for each in written] if column.name == "n" else []
        assert found == [Decimal(each) if type_ != "DOUBLE" else float(each) for each in written][: len(found)]


def value_of(column: Column, written: str) -> Any:
    return convert(parse(f'{{"n": {written}}}'.encode()), (column.field,))["n"]


def test_without_a_field_that_all_records_have_there_is_no_key() -> None:
    for proposal in (of({"a": 1}, {"b": 1}), of(1), propose([])):
        assert proposal.key == ()
    with pytest.raises(Rejection):
        StreamTable("t", "t", "", of({"id": 1}).columns, ["id"]).decode(b"{}")


def test_numbers_beyond_a_double_and_very_many_fields_are_left_out_and_told() -> None:
    proposal = propose([b'{"id": 1, "x": 1e400, "y": 1e999999999999999999999}'])
    assert types(proposal) == {"id": "BIGINT"}
    many = of({"id": 1} | {f"f{n}": n for n in range(3_000)})
    assert len(many.columns) == 1_000
    assert "Only the first 1,000 fields were looked at." in many.doubts


def test_a_record_that_is_nested_deeply_keeps_no_proposal_from_being_made() -> None:
    deep = b'{"id": 1, "x": ' + b"[" * 500 + b"]" * 500 + b"}"
    assert propose([deep, b'{"id": 2}']).key == ("id",)


def test_no_column_is_named_as_one_of_the_change_feed() -> None:
    told = propose([b'{"n_before": 1, "n": 1}', b'{"n_before": 2, "n": 1}'])
    assert {column.name for column in told.columns} == {"n_before_", "n"}
    assert StreamTable("t", "t", "", told.columns, told.key)


def test_a_field_that_is_too_deep_for_a_type_is_told_by_its_whole_path() -> None:
    path = [f"level_{depth}_of_a_long_path" for depth in range(11)]
    value: Any = 1
    for name in reversed(path[1:]):
        value = [{name: value, f"{name}_id": 2}]
    (doubt,) = (each for each in of({"id": 1, path[0]: value}).doubts if "left out" in each)
    assert "no type of at most 8 levels holds" in doubt
    assert f"{path[0]}[].{path[1]}[].{path[2]}[].{path[3]}" in doubt
    assert "..." not in doubt
