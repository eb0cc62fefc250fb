"""A proposed declaration of records with schema ids: the types are those of the schemas."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.cli.proposals import declaration_text
from lakehouse.declaration import Avro, Debezium, Json, Protobuf, StreamTable
from lakehouse.declaration.inference.proposal import Proposal, propose
from lakehouse.decoding.formats import likely_formats
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.brokers.registries import CUSTOMER, FIRST, SECOND, encode_records
from lakehouse_tests.helpers.proposals import types

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}]}
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "n", "type": "int"}, {"name": "to", "type": ["null", "Node"]}],
}
KINDS: list[tuple[Any, Any, str]] = [
    ("boolean", st.booleans(), "BOOLEAN"),
    ("int", st.integers(-(2**31), 2**31 - 1), "INT"),
    ("long", st.integers(-(2**63), 2**63 - 1), "BIGINT"),
    ("float", st.floats(width=32, allow_nan=False, allow_infinity=False), "DOUBLE"),
    ("double", st.floats(allow_nan=False, allow_infinity=False), "DOUBLE"),
    ("string", st.sampled_from("abc"), "STRING"),
    ({"type": "enum", "name": "State", "symbols": ["open", "shut"]}, st.sampled_from(["open", "shut"]), "STRING"),
    ({"type": "int", "logicalType": "date"}, st.dates(), "DATE"),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.just(NOON), "TIMESTAMP"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, st.datetimes(), "TIMESTAMP"),
    (MONEY, st.decimals(-9_999, 9_999, places=2), "DECIMAL(9,2)"),
    ({"type": "array", "items": ITEM}, st.just([{"sku": "a", "n": 1}]), "ARRAY<STRUCT<sku: STRING, n: INT>>"),
    ({"type": "map", "values": ["null", "long"]}, st.just({"a": 1, "b": None}), "MAP<STRING, BIGINT>"),
]


def schema_of(**types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in types.items()]}


def infer_avro(*versions: tuple[dict[str, Any], list[dict[str, Any]]]) -> Proposal:
    """The proposal for records of several versions of a schema; every record must fit the proposed table."""
    known_schemas = {number: writer_schema(json.dumps(schema)) for number, (schema, _) in enumerate(versions, 1)}
    values = [value for number, version in enumerate(versions, 1) for value in encode_records(number, *version)]
    proposal = propose(values, Avro(), Schemas(known_schemas, {}))
    assert proposal.unread == 0
    if proposal.columns:
        table = StreamTable("t", "t", "", proposal.columns, proposal.key, format=proposal.form)
        for value in values:
            table.decode(value, schemas=known_schemas)
    return proposal


@given(st.data())
def test_avro_types_are_those_of_the_schema_and_every_record_fits(data: st.DataObject) -> None:
    picked_kinds = data.draw(st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), min_size=1, max_size=5))
    kinds = {f"f{n}": kind for n, (kind, _) in enumerate(picked_kinds)}
    nullable = {f"f{n}": null for n, (_, null) in enumerate(picked_kinds)}
    schema_types = {name: ["null", kind[0]] if nullable[name] else kind[0] for name, kind in kinds.items()}
    fields = {name: st.none() | kind[1] if nullable[name] else kind[1] for name, kind in kinds.items()}
    records = data.draw(st.lists(st.fixed_dictionaries(fields), min_size=1, max_size=4))
    defined_names = set[str]()
    schema = schema_of(**{name: define_once(kind, defined_names) for name, kind in schema_types.items()})
    proposal = infer_avro((schema, records))
    expected = {name: kind[2] for name, kind in kinds.items() if name not in proposal.key}
    assert {name: type_ for name, type_ in types(proposal).items() if name not in proposal.key} == expected
    required_names = {column.name for column in proposal.columns if column.required}
    assert required_names - {*proposal.key} == {name for name in kinds if not nullable[name]} - {*proposal.key}
    assert not any(column.time.pattern or column.time.epoch for column in proposal.columns)


def define_once(kind: Any, defined_names: set[str]) -> Any:
    """The schema, in which a named type is defined once and then used by its name."""
    if isinstance(kind, list):
        return [define_once(branch, defined_names) for branch in kind]
    if not isinstance(kind, dict):
        return kind
    if kind.get("name") in defined_names:
        return kind["name"]
    defined_names |= {kind["name"]} if "name" in kind else set()
    return {**kind, "items": define_once(kind["items"], defined_names)} if "items" in kind else kind


def test_fields_that_a_version_of_the_schema_does_not_have_are_not_required() -> None:
    order = {"id": Decimal(1), "at": NOON, "total": 2.5}
    proposal = infer_avro((FIRST, [order]), (SECOND, [order | {"id": Decimal(2), "customer": {"name": "Ann"}}]))
    assert {column.name: (column.type, column.required) for column in proposal.columns} == {
        "customer_name": ("STRING", False),
        "total": ("DOUBLE", False),
        "id": ("DECIMAL(20,0)", True),
        "at": ("TIMESTAMP", True),
        "channel": ("STRING", False),
    }
    assert proposal.key == ("id",)


def test_records_with_schemas_of_several_names_have_no_key() -> None:
    other_schema = schema_of(id="long", reason="string") | {"name": "Refund", "namespace": "shop"}
    proposal = infer_avro(
        (schema_of(id="long", total="double"), [{"id": 1, "total": 2.5}]), (other_schema, [{"id": 1, "reason": "x"}])
    )
    assert proposal.key == ()
    assert any("have several types, by their schemas: R, shop.Refund" in warning for warning in proposal.warnings)


def test_a_field_renamed_in_a_newer_version_does_not_make_another_type_of_record() -> None:
    old, new = schema_of(id="long", city="string"), schema_of(id="long", town="string")
    assert infer_avro((old, [{"id": 1, "city": "Oslo"}]), (new, [{"id": 2, "town": "Oslo"}])).key == ("id",)


def test_a_field_that_is_always_null_has_the_type_of_its_schema() -> None:
    schema = schema_of(id="long", to=["null", CUSTOMER], at=["null", {"type": "int", "logicalType": "date"}])
    proposal = infer_avro((schema, [{"id": 1, "to": None, "at": None}]))
    assert types(proposal) == {"id": "BIGINT", "to_name": "STRING", "at": "DATE"}


@pytest.mark.parametrize(
    ("first_number", "other_schema", "type_"),
    [
        (("int", 1), ("long", 2**40), "BIGINT"),
        (("double", 1.5), ("int", 2), "DOUBLE"),
        ((MONEY, Decimal("1.25")), ({**MONEY, "precision": 12, "scale": 4}, Decimal("1.0001")), "DECIMAL(12,4)"),
        ((MONEY, Decimal("1.25")), ({**MONEY, "precision": 9, "scale": 0}, Decimal(10**8)), "DECIMAL(11,2)"),
    ],
)
def test_numbers_of_two_versions_have_the_type_that_holds_both(
    first_number: Any, other_schema: Any, type_: str
) -> None:
    versions = [
        (schema_of(id="string", n=kind), [{"id": f"{value}", "n": value}])
        for kind, value in (first_number, other_schema)
    ]
    assert types(infer_avro(*versions))["n"] == type_


@pytest.mark.parametrize(
    ("kind", "value", "warning_part"),
    [
        (["string", "long"], "x", "each branch is a field of its own"),
        ({"type": "array", "items": "bytes"}, [], "'it' is left out: no column can have the type"),
        (NODE, {"n": 1, "to": {"n": 2, "to": {"n": 3, "to": None}}}, "'it.to.to'"),
        ("long", 1767225600123, "it looks like a time, in milliseconds"),
        ("string", "01.02.2026", "looks like a time"),
    ],
)
def test_a_proposal_warns_about_what_a_schema_cannot_show(kind: Any, value: Any, warning_part: str) -> None:
    name = "it_at" if "time" in warning_part else "it"
    proposal = infer_avro((schema_of(id="long", **{name: kind}), [{"id": n, name: value} for n in (1, 2)]))
    expected = {warning_part, warning_part.replace("it looks", f"{name} looks")}
    assert any(text in warning for text in expected for warning in proposal.warnings), proposal


@pytest.mark.parametrize("kind", ["bytes", {"type": "fixed", "name": "F", "size": 2}])
def test_bytes_become_a_column_that_reads_them(kind: Any) -> None:
    inner_record = {"type": "record", "name": "Inner", "fields": [{"name": "raw", "type": ["null", "bytes"]}]}
    schema = schema_of(id="long", raw=kind, inner=inner_record)
    records = [{"id": n, "raw": b"\xff\x00", "inner": {"raw": b"\x01"}} for n in (1, 2)]
    proposal = infer_avro((schema, records))
    assert types(proposal) == {"id": "BIGINT", "raw": "BINARY", "inner_raw": "BINARY"}
    table = StreamTable("t", "t", "", proposal.columns, proposal.key, format=Avro())
    schemas = {1: writer_schema(json.dumps(schema))}
    (value, _) = encode_records(1, schema, records)
    assert table.decode(value, schemas=schemas) == {"id": 1, "raw": b"\xff\x00", "inner_raw": b"\x01"}


def test_no_line_that_only_json_can_have_is_named_for_avro() -> None:
    value = {"type": "record", "name": "V", "fields": [{"name": "stringValue", "type": "string"}]}
    fields = [{"name": "key", "type": "string"}, {"name": "value", "type": value}]
    pairs = {"type": "array", "items": {"type": "record", "name": "P", "fields": fields}}
    record = {"id": 1, "it": [{"key": "a", "value": {"stringValue": "b"}}], "raw": "/wD/AP8A/w=="}
    warnings = " ".join(infer_avro((schema_of(id="long", it=pairs, raw="string"), [record])).warnings)
    assert "otlp" not in warnings
    assert "base64" not in warnings


def test_bytes_within_an_array_or_a_map_have_no_column() -> None:
    item = {
        "type": "record",
        "name": "Item",
        "fields": [{"name": "n", "type": "int"}, {"name": "raw", "type": "bytes"}],
    }
    kinds: dict[str, Any] = {
        "items": {"type": "array", "items": item},
        "map": {"type": "map", "values": "bytes"},
        "list": {"type": "array", "items": "bytes"},
    }
    records = [{"id": n, "items": [{"n": 1, "raw": b"x"}], "map": {"a": b"x"}, "list": [b"x"]} for n in (1, 2)]
    assert types(infer_avro((schema_of(id="long", **kinds), records))) == {
        "id": "BIGINT",
        "items": "ARRAY<STRUCT<n: INT>>",
    }


def test_a_value_that_does_not_fit_leaves_the_column_of_its_schema() -> None:
    schema = schema_of(id="long", it="double")
    records = [{"id": 1, "it": float("inf")}, {"id": 2, "it": 1.5}]
    known_schemas = Schemas({1: writer_schema(json.dumps(schema))}, {})
    proposal = propose(encode_records(1, schema, records), Avro(), known_schemas)
    assert types(proposal) == {"id": "BIGINT", "it": "DOUBLE"}
    assert "'it' has values that do not fit DOUBLE in some records: they are rejected." in proposal.warnings


def test_a_field_that_is_a_string_in_one_version_and_a_record_in_another_is_left_out() -> None:
    first, second = schema_of(id="long", to="string"), schema_of(id="long", to=CUSTOMER)
    proposal = infer_avro((first, [{"id": 1, "to": "Ann"}]), (second, [{"id": 2, "to": {"name": "Ann"}}]))
    assert types(proposal) == {"id": "BIGINT"}
    assert any("Field 'to' is left out" in warning for warning in proposal.warnings)


def test_a_proposal_warns_about_a_key_whose_schema_allows_null() -> None:
    proposal = infer_avro((schema_of(id=["null", "long"], v=["null", "int"]), [{"id": 1, "v": 1}, {"id": 2, "v": 1}]))
    assert {column.name: column.required for column in proposal.columns} == {"id": True, "v": False}
    assert any("id is in the key, but its schema allows null" in warning for warning in proposal.warnings)


def test_the_format_is_the_one_that_reads_most_records() -> None:
    avro, framed_json, plain = add_frame(1, b"\x02\x04"), add_frame(1, b'{"id": 1}'), b'{"id": 1}'
    assert likely_formats([avro, avro, plain, None, None, None]) == (Avro(), Protobuf(), Debezium(Avro()))
    assert likely_formats([framed_json, framed_json, avro, None])[0] == Json(framed=True)
    assert likely_formats([plain, plain, avro]) == likely_formats([]) == likely_formats([b"\x00"]) == (Json(),)
    proposal = propose([framed_json, plain], Json(framed=True))
    assert (types(proposal), proposal.unread) == ({"id": "BIGINT"}, 1)
    assert proposal.refusal.startswith("the first byte is 123")


def test_a_record_that_is_nested_too_deeply_cannot_be_read() -> None:
    known_schemas = {1: writer_schema(json.dumps(schema_of(id="long", it=NODE)))}
    values = [add_frame(1, b"\x02" + b"\x02\x02" * levels + b"\x02\x00") for levels in range(1_000)]
    proposal = propose(values, Avro(), Schemas(known_schemas, {}))
    assert 0 < proposal.unread < 1_000 and proposal.refusal == "nested too deeply"
    assert types(proposal) == {"id": "BIGINT", "it_n": "INT", "it_to": "STRUCT<n: INT>"}


PAID = {"type": "record", "name": "shop.Paid", "fields": [{"name": "amount", "type": "long"}]}
UNION_TYPES: list[tuple[Any, list[Any], dict[str, str]]] = [
    (["null", "int", "long"], [1, None], {"v": "BIGINT"}),
    (["int", "double"], [1, 1.5], {"v": "DOUBLE"}),
    (["string", {"type": "enum", "name": "E", "symbols": ["a"]}], ["a"], {"v": "STRING"}),
    (["null", "string", "long"], ["a", 5, None], {"v_string": "STRING", "v_long": "BIGINT"}),
    (["long", "double"], [5, 1.5], {"v_long": "BIGINT", "v_double": "DOUBLE"}),
    (["null", PAID, "string"], [{"amount": 5}, "a"], {"v_shop_paid_amount": "BIGINT", "v_string": "STRING"}),
    (
        {"type": "array", "items": ["string", "long"]},
        [["a", 5]],
        {"v": "ARRAY<STRUCT<string: STRING, long: BIGINT>>"},
    ),
]


@pytest.mark.parametrize(("type_", "values", "expected"), UNION_TYPES)
def test_a_union_is_a_column_if_one_type_is_exact_and_else_a_column_for_each_branch(
    type_: Any, values: list[Any], expected: dict[str, str]
) -> None:
    proposal = infer_avro((schema_of(v=type_), [{"v": value} for value in values]))
    assert types(proposal) == expected
    is_named = expected.keys() != {"v"} or "STRUCT" in expected["v"]
    assert proposal.form == Avro(named_branches=is_named)
    assert any("named_branches=True" in warning for warning in proposal.warnings) is is_named
    text = declaration_text("t", ["t"], proposal)
    assert ("format=Avro(named_branches=True)" in text) is is_named
    assert "import Avro, Column, StreamTable" in text


def test_a_union_of_records_is_a_log_table_with_the_fields_of_each_record() -> None:
    placed = {"type": "record", "name": "shop.Placed", "fields": [{"name": "id", "type": "string"}]}
    schema = {1: writer_schema(json.dumps([placed, PAID]))}
    values = [add_frame(1, b"\x00\x02a"), add_frame(1, b"\x02\x0a")]
    proposal = propose(values, Avro(), Schemas(schema, {}))
    assert types(proposal) == {"shop_placed_id": "STRING", "shop_paid_amount": "BIGINT"}
    assert (proposal.unread, proposal.key) == (0, ())


def test_a_branch_of_bytes_becomes_a_column_of_bytes() -> None:
    proposal = infer_avro((schema_of(v=["string", "bytes"]), [{"v": "a"}, {"v": b"a"}]))
    assert types(proposal) == {"v_string": "STRING", "v_bytes": "BINARY"}
