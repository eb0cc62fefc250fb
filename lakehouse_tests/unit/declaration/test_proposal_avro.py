"""A first declaration of records before which the id of a schema stands: types are what their schemas say."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Avro, Json, StreamTable
from lakehouse.declaration.inference.proposal import Proposal, propose
from lakehouse.decoding.formats import likely_formats
from lakehouse.decoding.formats.avro_schemas import writer_schema
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import framed
from lakehouse_tests.helpers.brokers.registries import CUSTOMER, FIRST, SECOND, written
from lakehouse_tests.unit.declaration.test_proposal import types

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


def of_avro(*versions: tuple[dict[str, Any], list[dict[str, Any]]]) -> Proposal:
    """What is proposed for the records of versions of a schema; each of them has to enter the table."""
    known = {number: writer_schema(json.dumps(schema)) for number, (schema, _) in enumerate(versions, 1)}
    values = [each for number, version in enumerate(versions, 1) for each in written(number, *version)]
    proposal = propose(values, Avro(), Schemas(known, {}))
    assert proposal.unread == 0
    if proposal.columns:
        table = StreamTable("t", "t", "", proposal.columns, proposal.key, format=proposal.form)
        for value in values:
            table.decode(value, schemas=known)
    return proposal


@given(st.data())
def test_of_avro_types_are_those_of_the_schema_and_every_record_enters(data: st.DataObject) -> None:
    picked = data.draw(st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), min_size=1, max_size=5))
    kinds = {f"f{n}": kind for n, (kind, _) in enumerate(picked)}
    nullable = {f"f{n}": null for n, (_, null) in enumerate(picked)}
    types_said = {name: ["null", kind[0]] if nullable[name] else kind[0] for name, kind in kinds.items()}
    fields = {name: st.none() | kind[1] if nullable[name] else kind[1] for name, kind in kinds.items()}
    records = data.draw(st.lists(st.fixed_dictionaries(fields), min_size=1, max_size=4))
    named = set[str]()
    schema = schema_of(**{name: once(kind, named) for name, kind in types_said.items()})
    proposal = of_avro((schema, records))
    expected = {name: kind[2] for name, kind in kinds.items() if name not in proposal.key}
    assert {name: type_ for name, type_ in types(proposal).items() if name not in proposal.key} == expected
    required = {column.name for column in proposal.columns if column.required}
    assert required - {*proposal.key} == {name for name in kinds if not nullable[name]} - {*proposal.key}
    assert not any(column.pattern or column.epoch for column in proposal.columns)


def once(kind: Any, named: set[str]) -> Any:
    """A schema in which what has a name stands once, and is named where it stands again."""
    if isinstance(kind, list):
        return [once(each, named) for each in kind]
    if not isinstance(kind, dict):
        return kind
    if kind.get("name") in named:
        return kind["name"]
    named |= {kind["name"]} if "name" in kind else set()
    return {**kind, "items": once(kind["items"], named)} if "items" in kind else kind


def test_versions_of_a_schema_are_one_declaration_with_what_may_be_missing_not_required() -> None:
    order = {"id": Decimal(1), "at": NOON, "total": 2.5}
    proposal = of_avro((FIRST, [order]), (SECOND, [order | {"id": Decimal(2), "customer": {"name": "Ann"}}]))
    assert {column.name: (column.type, column.required) for column in proposal.columns} == {
        "customer_name": ("STRING", False),
        "total": ("DOUBLE", False),
        "id": ("DECIMAL(20,0)", True),
        "at": ("TIMESTAMP", True),
        "channel": ("STRING", False),
    }
    assert proposal.key == ("id",)


def test_records_of_schemas_of_several_names_have_no_key_and_are_named() -> None:
    other = schema_of(id="long", reason="string") | {"name": "Refund", "namespace": "shop"}
    proposal = of_avro(
        (schema_of(id="long", total="double"), [{"id": 1, "total": 2.5}]), (other, [{"id": 1, "reason": "x"}])
    )
    assert proposal.key == ()
    assert any("several types were seen, by their schemas: R, shop.Refund" in each for each in proposal.doubts)


def test_a_field_that_a_newer_version_calls_otherwise_makes_no_other_type() -> None:
    old, new = schema_of(id="long", city="string"), schema_of(id="long", town="string")
    assert of_avro((old, [{"id": 1, "city": "Oslo"}]), (new, [{"id": 2, "town": "Oslo"}])).key == ("id",)


def test_what_is_null_in_every_record_has_the_type_of_its_schema() -> None:
    schema = schema_of(id="long", to=["null", CUSTOMER], at=["null", {"type": "int", "logicalType": "date"}])
    proposal = of_avro((schema, [{"id": 1, "to": None, "at": None}]))
    assert types(proposal) == {"id": "BIGINT", "to_name": "STRING", "at": "DATE"}


@pytest.mark.parametrize(
    ("one", "other", "type_"),
    [
        (("int", 1), ("long", 2**40), "BIGINT"),
        (("double", 1.5), ("int", 2), "DOUBLE"),
        ((MONEY, Decimal("1.25")), ({**MONEY, "precision": 12, "scale": 4}, Decimal("1.0001")), "DECIMAL(12,4)"),
        ((MONEY, Decimal("1.25")), ({**MONEY, "precision": 9, "scale": 0}, Decimal(10**8)), "DECIMAL(11,2)"),
    ],
)
def test_numbers_of_two_versions_have_the_type_that_holds_both(one: Any, other: Any, type_: str) -> None:
    versions = [(schema_of(id="string", n=kind), [{"id": f"{value}", "n": value}]) for kind, value in (one, other)]
    assert types(of_avro(*versions))["n"] == type_


@pytest.mark.parametrize(
    ("kind", "value", "doubt"),
    [
        ("bytes", b"x", "'it' is left out: no column is of the type that its schema has"),
        (["string", "long"], "x", "'it' is left out: no column is of the type that its schema has"),
        ({"type": "array", "items": "bytes"}, [], "'it' is left out: no column is of the type"),
        (NODE, {"n": 1, "to": {"n": 2, "to": {"n": 3, "to": None}}}, "'it.to.to'"),
        ("long", 1767225600123, "it is taken for a time"),
        ("string", "01.02.2026", "looks like a time"),
    ],
)
def test_what_a_schema_does_not_tell_is_said(kind: Any, value: Any, doubt: str) -> None:
    name = "it_at" if "time" in doubt else "it"
    proposal = of_avro((schema_of(id="long", **{name: kind}), [{"id": n, name: value} for n in (1, 2)]))
    assert any(doubt.replace("it is", f"{name} is") in each or doubt in each for each in proposal.doubts), proposal


def test_a_value_that_no_column_takes_leaves_the_column_that_its_schema_tells() -> None:
    schema = schema_of(id="long", it="double")
    records = [{"id": 1, "it": float("inf")}, {"id": 2, "it": 1.5}]
    known = Schemas({1: writer_schema(json.dumps(schema))}, {})
    proposal = propose(written(1, schema, records), Avro(), known)
    assert types(proposal) == {"id": "BIGINT", "it": "DOUBLE"}
    assert "'it' holds values beyond DOUBLE in some records, which would be rejected." in proposal.doubts


def test_a_field_that_two_versions_have_as_a_text_and_as_a_record_is_left_out() -> None:
    first, second = schema_of(id="long", to="string"), schema_of(id="long", to=CUSTOMER)
    proposal = of_avro((first, [{"id": 1, "to": "Ann"}]), (second, [{"id": 2, "to": {"name": "Ann"}}]))
    assert types(proposal) == {"id": "BIGINT"}
    assert any("Field 'to' is left out" in each for each in proposal.doubts)


def test_a_key_that_a_schema_lets_be_null_is_told() -> None:
    proposal = of_avro((schema_of(id=["null", "long"], v=["null", "int"]), [{"id": 1, "v": 1}, {"id": 2, "v": 1}]))
    assert {column.name: column.required for column in proposal.columns} == {"id": True, "v": False}
    assert any("id is in the key, and may be null by its schema" in each for each in proposal.doubts)


def test_the_format_is_that_of_most_records() -> None:
    avro, behind, plain = framed(1, b"\x02\x04"), framed(1, b'{"id": 1}'), b'{"id": 1}'
    assert likely_formats([avro, avro, plain, None, None, None]) == (Avro(),)
    assert likely_formats([behind, behind, avro, None])[0] == Json(framed=True)
    assert likely_formats([plain, plain, avro]) == likely_formats([]) == likely_formats([b"\x00"]) == (Json(),)
    proposal = propose([behind, plain], Json(framed=True))
    assert (types(proposal), proposal.unread) == ({"id": "BIGINT"}, 1)
    assert proposal.refusal.startswith("the first byte is 123")


def test_a_record_nested_too_deeply_is_one_that_cannot_be_read() -> None:
    known = {1: writer_schema(json.dumps(schema_of(id="long", it=NODE)))}
    values = [framed(1, b"\x02" + b"\x02\x02" * levels + b"\x02\x00") for levels in range(1_000)]
    proposal = propose(values, Avro(), Schemas(known, {}))
    assert 0 < proposal.unread < 1_000 and proposal.refusal == "nested too deeply"
    assert types(proposal) == {"id": "BIGINT", "it_n": "INT", "it_to": "STRUCT<n: INT>"}
