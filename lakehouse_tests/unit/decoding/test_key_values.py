"""Arrays of names with values become maps, and values of OpenTelemetry texts; strictly, on both paths."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, KeyValues, Rejection, StreamTable
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, json_memory
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, rows_twice, spoiled
from lakehouse_tests.helpers.decoding.native import judge, uncertain_records

MAP = "MAP<STRING, STRING>"
ATTRIBUTES = Column("attributes", MAP, "Attributes.", written="otlp")
BODY = Column("body", "STRING", "Text.", written="otlp")
TAGS = Column("tags", MAP, "Tags.", written=KeyValues(key="name"))
NUMBER = Column("n", "BIGINT", "A number.")
LOGS = StreamTable("logs", "logs", "Logs.", [ATTRIBUTES, BODY, TAGS, NUMBER], [])


def decoded(**fields: Any) -> Any:
    """The row of a record, with its maps as dicts, or why it is rejected."""
    try:
        row = LOGS.decode(json.dumps(fields).encode())
    except Rejection as rejection:
        return rejection.reason, rejection.detail
    return {name: dict(value) if isinstance(value, list) else value for name, value in row.items()}


def reason(**fields: Any) -> str:
    row = decoded(**fields)
    assert isinstance(row, tuple), row
    return row[0]


VALUES = [
    ({"stringValue": "GET"}, "GET"),
    ({"stringValue": '["quoted"]'}, '["quoted"]'),
    ({"intValue": "-12"}, "-12"),
    ({"intValue": 12}, "12"),
    ({"intValue": str(-(2**63))}, str(-(2**63))),
    ({"doubleValue": 0.5}, "0.5"),
    ({"doubleValue": "1.50"}, "1.50"),
    ({"doubleValue": "NaN"}, "NaN"),
    ({"boolValue": True}, "true"),
    ({"bytesValue": "AQI="}, "AQI="),
    ({}, None),
    (None, None),
    (
        {"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "1"}, {}, {"boolValue": False}]}},
        '["a",1,null,false]',
    ),
    ({"arrayValue": {}}, "[]"),
    (
        {"kvlistValue": {"values": [{"key": "a", "value": {"arrayValue": {"values": []}}}, {"key": "b"}]}},
        '{"a":[],"b":null}',
    ),
]


@pytest.mark.parametrize(("value", "text"), VALUES)
def test_a_value_of_opentelemetry_becomes_its_text(value: Any, text: str | None) -> None:
    row = decoded(attributes=[{"key": "k", "value": value}], body=value)
    assert (row["attributes"], row["body"]) == ({"k": text}, text)


@pytest.mark.parametrize(
    "value",
    [
        {"stringValue": 1},
        {"stringValue": None},
        {"intValue": "1.0"},
        {"intValue": "01"},
        {"intValue": 1.5},
        {"intValue": True},
        {"intValue": str(2**63)},
        {"intValue": 2**63},
        {"doubleValue": "x"},
        {"doubleValue": False},
        {"boolValue": "true"},
        {"bytesValue": "AR=="},
        {"arrayValue": []},
        {"arrayValue": {"values": [], "more": 1}},
        {"arrayValue": {"values": {"a": 1}}},
        {"kvlistValue": {"values": [{"value": {}}]}},
        {"stringValue": "a", "intValue": "1"},
        {"string_value": "a"},
        "a",
        1,
        [],
        [{}],
    ],
)
def test_a_value_of_another_shape_rejects_the_record(value: Any) -> None:
    assert reason(attributes=[{"key": "k", "value": value}]) == "wrong_type"
    assert reason(body=value) == "wrong_type"


@pytest.mark.parametrize(
    "array",
    [{}, "a", {"k": "v"}, [None], [1], [[]], [{"value": {}}], [{"key": 1}], [{"key": "a", "value": {}, "extra": 1}]],
)
def test_an_array_of_another_shape_rejects_the_record(array: Any) -> None:
    assert reason(attributes=array) == "wrong_type"


def test_a_key_that_occurs_twice_rejects_the_record() -> None:
    detail = "'attributes' has the key 'a' more than once"
    assert decoded(attributes=[{"key": "a"}, {"key": "b"}, {"key": "a"}]) == ("duplicate_name", detail)
    inner = {"kvlistValue": {"values": [{"key": "a"}, {"key": "a"}]}}
    assert reason(attributes=[{"key": "k", "value": inner}]) == "duplicate_name"


def test_messages_say_what_was_expected() -> None:
    _, detail = decoded(attributes=[{"key": "k", "value": {"intValue": "x"}}])
    assert detail == "'attributes.intValue' is text 'x', expected a value of OpenTelemetry with written='otlp'"
    _, detail = decoded(tags=[{"key": "k"}])
    expected = "an object with a text 'name', 'value' and nothing else with written=KeyValues(key='name')"
    assert detail == f"'tags[]' is an object of 1, expected {expected}"


def test_plain_values_keep_their_text() -> None:
    values = {"a": "x", "b": 1, "c": 0.25, "d": True, "e": None, "f": {"stringValue": [1]}, "g": [None]}
    row = decoded(tags=[{"name": name, "value": value} for name, value in values.items()])
    texts = {"a": "x", "b": "1", "c": "0.25", "d": "true", "e": None, "f": '{"stringValue":[1]}', "g": "[null]"}
    assert row["tags"] == texts


def test_no_attributes_and_an_empty_array_differ() -> None:
    assert decoded(attributes=None)["attributes"] is None
    assert decoded(attributes=[])["attributes"] == {}
    assert decoded()["attributes"] is None


def test_an_empty_value_is_null_where_one_is_required() -> None:
    body = Column("body", "STRING", "Text.", written="otlp", required=True)
    with pytest.raises(Rejection, match="required"):
        StreamTable("logs", "logs", "Logs.", [body], []).decode(b'{"body": {}}')


@pytest.mark.invariant("8.11")
@pytest.mark.parametrize("levels", [200, 100_000])
def test_deeply_nested_values_reject_only_their_record(levels: int) -> None:
    value = b'{"arrayValue":{"values":[' * levels + b"]}}" * levels
    records = [b'{"body": ' + value + b"}", b'{"n": 1}', b'{"attributes": [{"key": "a", "value": ' + value + b"}]}"]
    verdicts = rows_twice(records, LOGS.rules())
    assert [verdict["_reason"] in ("out_of_range", "invalid_json") for verdict in verdicts] == [True, False, True]


@pytest.mark.invariant("8.11")
def test_texts_of_many_attributes_count_for_the_memory_of_a_record() -> None:
    pairs = (b'{"key":"%d"}' % number for number in range(MAX_RECORD_MEMORY // 560))
    value = b'{"attributes": [' + b",".join(pairs) + b"]}"
    assert json_memory(value) < MAX_RECORD_MEMORY
    assert judge(value, None, LOGS.rules()).reason == "too_large"


def test_what_is_in_a_map_is_not_unmapped() -> None:
    records = [b'{"attributes": [{"key": "a", "value": {"stringValue": "b"}}], "tags": [{"name": "a"}], "x": 1}']
    assert decode_twice(records, LOGS.rules()).unmapped_counts == {"x": 1}


_texts = st.sampled_from(["", "a", "ü", "1", "-0", "1e5", "NaN", "AQI=", "\ud800", "null", "[1]"])
_scalars = st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.sampled_from([0.5, 1e300, -0.0]) | _texts
_kinds = ["stringValue", "intValue", "doubleValue", "boolValue", "bytesValue"]
_plain = st.sampled_from([{"stringValue": "a"}, {"intValue": "5"}, {"boolValue": True}, {"intValue": 7}, {}])


def _pairs(values: Any) -> Any:
    pair = st.fixed_dictionaries({"key": _texts}, optional={"value": values})
    return st.lists(pair, max_size=3, unique_by=lambda pair: pair["key"]) | st.lists(pair | _scalars, max_size=3)


_any_values = st.recursive(
    _plain | st.dictionaries(st.sampled_from(_kinds), _scalars, max_size=1) | _scalars,
    lambda inner: (
        st.fixed_dictionaries(
            {}, optional={"arrayValue": st.fixed_dictionaries({}, optional={"values": st.lists(inner, max_size=2)})}
        )
        | _pairs(inner).map(lambda pairs: {"kvlistValue": {"values": pairs}})
    ),
    max_leaves=4,
)


_records = st.fixed_dictionaries(
    {},
    optional={
        "attributes": _pairs(_any_values) | _scalars | _pairs(_any_values).map(json.dumps),
        "body": _any_values,
        "tags": st.lists(st.fixed_dictionaries({}, optional={"name": _texts, "value": _any_values}), max_size=3),
        "n": st.integers(0, 9),
    },
).map(lambda record: json.dumps(record).encode())
REPLACEMENTS = [b"", b"}", b"NaN", b"1e999999999", b'"key": "a", ', b"\xff", b"0"]


@pytest.mark.invariant("8.10")
@given(records=st.lists(_records | spoiled(_records, REPLACEMENTS), max_size=5))
def test_the_fast_path_gives_the_rows_of_the_strict_path(records: list[bytes]) -> None:
    decode_twice(records, LOGS.rules())


def test_ordinary_attributes_take_the_fast_path() -> None:
    attributes = [{"key": "a", "value": {"stringValue": "b"}}, {"key": "n", "value": {"intValue": "5"}}]
    record = json.dumps({"attributes": attributes, "body": {"stringValue": "x"}, "tags": [], "n": 1}).encode()
    assert uncertain_records(pa.array([record] * 2), None, LOGS.rules()) == []
