"""JSON of Kafka Connect: the schema in a record gives the types of its payload, on both paths."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Compressed, ConnectJson, Debezium, Json, Rejection, StreamTable
from lakehouse.declaration.inference.proposal import propose
from lakehouse.decoding.formats import likely_formats
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

CONNECT, DEBEZIUM = "org.apache.kafka.connect.data", "io.debezium.time"
DECIMAL = {
    "type": "bytes",
    "name": f"{CONNECT}.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "9"},
}
DAY = {"type": "int32", "name": f"{CONNECT}.Date"}
FIELDS: dict[str, Any] = {
    "id": {"type": "int64", "optional": False},
    "at": {"type": "int64", "name": f"{CONNECT}.Timestamp", "optional": True},
    "moved": {"type": "int64", "name": f"{DEBEZIUM}.MicroTimestamp", "optional": True},
    "seen": {"type": "string", "name": f"{DEBEZIUM}.ZonedTimestamp", "optional": True},
    "price": {**DECIMAL, "optional": True},
    "share": {"type": "double", "optional": True},
    "photo": {"type": "bytes", "optional": True},
    "buyer": {
        "type": "struct",
        "optional": True,
        "fields": [{"field": "since", **DAY}, {"field": "n", "type": "int8"}],
    },
    "days": {"type": "array", "items": DAY, "optional": True},
    "prices": {"type": "map", "keys": {"type": "string"}, "values": DECIMAL, "optional": True},
    "counts": {"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}, "optional": True},
    "lines": {
        "type": "array",
        "optional": True,
        "items": {"type": "struct", "fields": [{"field": "on", **DAY}, {"field": "é", "type": "int32"}]},
    },
}
PAYLOAD: dict[str, Any] = {
    "id": 7,
    "at": 1767225600000,
    "moved": 1767225600000001,
    "seen": "2026-01-01T01:00:00+01:00",
    "price": "AeJA",
    "share": 0.5,
    "photo": "AAH/",
    "buyer": {"since": 20454, "n": 1},
    "days": [20454, None],
    "prices": {"low": "AQ=="},
    "counts": [[1, 2]],
    "lines": [{"on": 20454, "é": 1}],
}
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def record(payload: Any, schema: Any = FIELDS, name: str = "orders.Value") -> bytes:
    """A record with a schema of these fields."""
    fields = [{"field": field, **schema[field]} for field in schema] if schema is FIELDS else schema
    content = {"type": "struct", "name": name, "fields": fields} if schema is FIELDS else schema
    return json.dumps({"schema": content, "payload": payload}).encode()


PROPOSAL = propose([record(PAYLOAD), record(PAYLOAD | {"id": 8})], ConnectJson())
TABLE = StreamTable("orders", "orders", "Orders.", PROPOSAL.columns, PROPOSAL.key, format=ConnectJson())


def test_the_columns_have_the_types_of_the_schema() -> None:
    assert {column.name: column.type for column in TABLE.columns} == {
        "id": "BIGINT",
        "at": "TIMESTAMP",
        "moved": "TIMESTAMP",
        "seen": "TIMESTAMP",
        "price": "DECIMAL(9,2)",
        "share": "DOUBLE",
        "photo": "BINARY",
        "buyer_since": "DATE",
        "buyer_n": "INT",
        "days": "ARRAY<DATE>",
        "prices": "MAP<STRING, DECIMAL(9,2)>",
        "lines": "ARRAY<STRUCT<on: DATE>>",
    }
    assert TABLE.key == ("id",)
    assert "Field 'counts' is left out: no column can have the type of its schema." in PROPOSAL.warnings
    assert [column.name for column in TABLE.columns if column.required] == ["id"]


def test_values_are_converted_by_the_schema_also_within_others() -> None:
    (row,) = rows_twice([record(PAYLOAD)], TABLE.rules())
    assert row["_reason"] is None
    assert {name: row[name] for name in TABLE.by_name} == {
        "id": 7,
        "at": NEW_YEAR,
        "moved": NEW_YEAR.replace(microsecond=1),
        "seen": NEW_YEAR,
        "price": Decimal("1234.56"),
        "share": 0.5,
        "photo": b"\x00\x01\xff",
        "buyer_since": date(2026, 1, 1),
        "buyer_n": 1,
        "days": [date(2026, 1, 1), None],
        "prices": [("low", Decimal("0.01"))],
        "lines": [{"on": date(2026, 1, 1)}],
    }


def test_each_record_is_read_by_its_own_schema() -> None:
    plain_id = {"type": "struct", "fields": [{"field": "id", "type": "int64"}, {"field": "price", "type": "string"}]}
    other_scale = {**DECIMAL, "parameters": {"scale": "1"}}
    scaled = {"type": "struct", "fields": [{"field": "price", **other_scale}]}
    values = [
        record(PAYLOAD),
        record({"id": 8, "price": "AeJA"}, scaled),
        record({"id": 9, "price": "AeJA"}, plain_id),
        record({"id": 10}, None),
        record(PAYLOAD | {"id": 11}),
    ]
    rows = rows_twice(values, TABLE.rules())
    assert [row["price"] for row in rows] == [Decimal("1234.56"), Decimal("12345.60"), None, None, Decimal("1234.56")]
    assert [row["_reason"] for row in rows] == [None, None, "wrong_type", None, None]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id":1}', "invalid_envelope"),
        (b'{"schema":null,"payload":{"id":1},"more":1}', "invalid_envelope"),
        (b'{"schema":null,"payload":null}', "not_an_object"),
        (b'{"schema":null,"payload":"{}"}', "not_an_object"),
        (b'{"schema":null,"payload":{"id":NaN}}', "not_finite"),
        (b'{"schema":null,"payload":{"id":1},"payload":{"id":2}}', "duplicate_name"),
        (record(PAYLOAD)[:-2], "truncated"),
        (b"[]", "not_an_object"),
        (b"", "empty_value"),
        (None, "tombstone"),
        (record({"id": 1, "at": 2**63}), "out_of_range"),
        (record({"id": 1, "price": "no base64"}), "wrong_type"),
        (record({"id": 1, "days": {"a": 1}}), "wrong_type"),
        (record({"id": 1, "buyer": [1]}), "wrong_type"),
        (record({"id": 1, "photo": "AA"}), "wrong_type"),
    ],
)
def test_what_is_no_payload_of_its_schema_rejects_the_record(value: bytes | None, reason: str) -> None:
    (row,) = rows_twice([value], TABLE.rules())
    assert row["_reason"] == reason
    with pytest.raises(Rejection, match=reason):
        TABLE.decode(value)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "type", "fields"]), inner),
    max_leaves=12,
)
PARTS = st.sampled_from(["type", "name", "fields", "items", "values", "keys", "parameters", "field"])


@given(st.dictionaries(st.sampled_from([*FIELDS]), ANYTHING), st.dictionaries(PARTS, ANYTHING))
@example({"at": 1e300}, {"type": "struct", "fields": [{"field": "at", "name": f"{CONNECT}.Timestamp"}]})
@example({"id": 1, "days": [[]]}, {"fields": [{"field": "days", "type": "array", "items": {"items": DAY}}]})
def test_any_payload_with_any_schema_is_judged_alike_on_both_paths(payload: Any, schema: Any) -> None:
    values = [record(PAYLOAD | payload), record(PAYLOAD, schema), record(payload, schema), record(PAYLOAD)]
    assert rows_twice(values, TABLE.rules())[-1]["_reason"] is None
    propose(values, ConnectJson())


def test_a_schema_that_contains_itself_in_depth_converts_nothing_below_a_limit() -> None:
    schema: dict[str, Any] = DAY
    value: Any = 20454
    for _ in range(400):
        schema, value = {"type": "array", "items": schema}, [value]
    deep = {"type": "struct", "fields": [{"field": "deep", **schema}]}
    (row,) = rows_twice([record({"id": 1, "deep": value}, deep)], TABLE.rules())
    assert (row["_reason"], row["id"]) == (None, 1)


def test_it_is_recognised_and_changes_of_a_database_are_not_taken_for_it() -> None:
    values = [record(PAYLOAD), record(PAYLOAD | {"id": 8})]
    assert likely_formats(values) == (ConnectJson(), Json())
    change = {"before": None, "after": {"id": 1}, "op": "c", "source": {"lsn": 1, "connector": "postgresql"}}
    assert likely_formats([json.dumps({"schema": None, "payload": change}).encode()])[0] == Debezium()
    assert likely_formats([b'{"schema":1,"payload":{"a":1},"other":2}']) == (Json(),)


def test_records_of_several_schemas_have_several_types() -> None:
    refund_schema = {"type": "struct", "name": "refunds.Value", "fields": [{"field": "refund", "type": "int64"}]}
    proposal = propose([record(PAYLOAD), record({"refund": 1}, refund_schema)], ConnectJson())
    assert proposal.key == ()
    assert any("orders.Value, refunds.Value" in warning for warning in proposal.warnings)


def test_it_may_be_compressed_and_read_nan_as_null() -> None:
    compressed = Compressed(ConnectJson(), "gzip")
    column = Column("n", "DOUBLE", "A number.")
    table = StreamTable("t", "t", "T.", [column], [], format=compressed)
    line = b'{"schema":null,"payload":{"n":1.5}}'
    assert table.decode(compressed.writer()(line)) == {"n": 1.5}
    null_table = StreamTable("t", "t", "T.", [column], [], format=ConnectJson(not_finite="null"))
    assert null_table.decode(b'{"schema":null,"payload":{"n":NaN}}') == {"n": None}


def test_a_schema_of_the_whole_payload_converts_only_its_fields() -> None:
    values = [
        b'{"schema":{"name":"io.debezium.data.VariableScaleDecimal"},"payload":{"scale":1,"value":"AQ==","id":1}}',
        json.dumps({"schema": {"type": "map", "values": DAY}, "payload": {"id": 1}}).encode(),
    ]
    assert [row["_reason"] for row in rows_twice(values, TABLE.rules())] == [None, "wrong_type"]


def test_a_record_does_not_depend_on_the_schema_of_the_record_before_it() -> None:
    def priced(scale: Any) -> bytes:
        field = {"field": "price", **DECIMAL, "parameters": {"scale": scale}}
        return record({"id": 1, "price": "AeJA"}, {"type": "struct", "fields": [field]})

    for scales in ((2, 2.0), (2.0, 2), (1, True)):
        together = rows_twice([priced(scale) for scale in scales], TABLE.rules())
        alone = [rows_twice([priced(scale)], TABLE.rules())[0] for scale in scales]
        assert together == alone
        assert {row["_reason"] for row in alone} == {"wrong_type"}


def test_many_converted_values_reject_a_record_that_takes_too_much_memory() -> None:
    schema = {"type": "struct", "fields": [{"field": "a", "type": "array", "items": FIELDS["moved"]}]}
    value = json.dumps({"schema": schema, "payload": {"id": 1, "a": "?"}}).encode()
    zeros = value.replace(b'"?"', b"[" + b"0," * 3_000_000 + b"0]")
    assert [row["_reason"] for row in rows_twice([zeros], TABLE.rules())] == ["too_large"]


def test_plain_json_with_such_fields_is_not_taken_for_it() -> None:
    values = [json.dumps({"schema": f"v{number}", "payload": {"id": number}}).encode() for number in range(3)]
    assert likely_formats(values) == (Json(),)
