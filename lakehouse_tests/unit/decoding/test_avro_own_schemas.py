"""Avro without a registry: the schema is in the declaration, and a fingerprint in the record may choose it."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Avro, Column, StreamTable
from lakehouse.declaration.snapshot import differences, facts_of
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import KNOWN_REASONS
from lakehouse.decoding.formats.avro.own_schemas import add_fingerprint
from lakehouse.decoding.formats.avro.schemas import parsing_fingerprint
from lakehouse.decoding.formats.format import UnwritableError
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.brokers.registries import body as encode
from lakehouse_tests.helpers.decoding.avro_sales import ALL_TYPES, COLUMNS, SALES, SCHEMAS
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

FIRST = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "string"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "items", "type": "int", "default": 0}]}
TEXTS = [json.dumps(FIRST), json.dumps(SECOND)]
ORDER_COLUMNS = [Column("id", "STRING", "Which.", required=True), Column("items", "INT", "How many.")]
PLAIN = StreamTable("o", "o", "O.", ORDER_COLUMNS, ["id"], format=Avro(schema=TEXTS[1]))
SINGLE = replace(PLAIN, format=Avro(schemas=TEXTS))
ROW = {"id": "a", "items": 3}
BODY = encode(SECOND, ROW)


def single_object(schema: dict[str, Any], body: bytes) -> bytes:
    return add_fingerprint(parsing_fingerprint(json.dumps(schema)), body)


def rejection(table: StreamTable, value: bytes | None) -> tuple[str, str]:
    with pytest.raises(Rejection) as rejected:
        table.decode(value)
    return rejected.value.reason, rejected.value.detail


@pytest.mark.parametrize(
    ("schema", "fingerprint"),
    [('"null"', 7195948357588979594), ('"int"', 8247732601305521295), ('"string"', -8142146995180207161)],
)
def test_fingerprints_are_those_of_the_tests_of_avro(schema: str, fingerprint: int) -> None:
    assert parsing_fingerprint(schema) == fingerprint % 2**64


def test_a_fingerprint_ignores_what_the_canonical_form_leaves_out() -> None:
    spaced = json.dumps({**FIRST, "doc": "An order.", "name": "Order", "namespace": "shop"}, indent=2)
    assert parsing_fingerprint(spaced) == parsing_fingerprint(TEXTS[0]) != parsing_fingerprint(TEXTS[1])


def test_a_value_without_a_header_is_one_record() -> None:
    assert PLAIN.decode(BODY) == ROW
    assert rejection(PLAIN, BODY + b"\x00") == ("trailing_bytes", "1 bytes follow the record")
    assert rejection(PLAIN, BODY[:-1])[0] == "truncated"
    assert rejection(PLAIN, b"")[0] == "empty_value"
    assert rejection(PLAIN, None)[0] == "tombstone"


def test_the_fingerprint_of_a_single_object_chooses_its_schema() -> None:
    assert SINGLE.decode(single_object(FIRST, encode(FIRST, {"id": "a"}))) == {"id": "a", "items": None}
    assert SINGLE.decode(single_object(SECOND, BODY)) == ROW
    assert single_object(SECOND, BODY)[:2] == b"\xc3\x01"


def test_an_unknown_fingerprint_is_named() -> None:
    reason, detail = rejection(SINGLE, b"\xc3\x01\x01\x02\x03\x04\x05\x06\x07\x08" + BODY)
    assert (reason, detail) == ("unknown_schema", "no declared schema has the fingerprint 0102030405060708")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (add_frame(7, BODY), ("wrong_magic", "the first bytes are 00 00; a single object begins with c3 01")),
        (b"\xc3", ("wrong_magic", "the first bytes are c3; a single object begins with c3 01")),
        (b"\xc3\x01\x00", ("truncated", "the record ends after 3 bytes, within the fingerprint of its schema")),
        (single_object(SECOND, BODY) + b"\x00", ("trailing_bytes", "1 bytes follow the record")),
        (b"", ("empty_value", "the value is empty")),
    ],
)
def test_another_value_is_no_single_object(value: bytes, expected: tuple[str, str]) -> None:
    reason, detail = rejection(SINGLE, value)
    assert reason == expected[0]
    assert reason == "empty_value" or detail == expected[1]


SALE_FORMATS = [Avro(schema=json.dumps(ALL_TYPES)), Avro(schemas=[TEXTS[0], json.dumps(ALL_TYPES)])]


def framed_sale(form: Avro, body: bytes) -> bytes:
    return body if form.schema else single_object(ALL_TYPES, body)


@pytest.mark.invariant("8.10", "8.13")
@pytest.mark.parametrize("form", SALE_FORMATS, ids=["plain", "single object"])
@given(sales=st.lists(SALES, min_size=1, max_size=3), data=st.data())
def test_records_are_read_as_with_a_registry_and_alike_on_both_paths(
    form: Avro, sales: list[dict[str, Any]], data: st.DataObject
) -> None:
    bodies = [encode(ALL_TYPES, sale) for sale in sales]
    spoiled = bytearray(framed_sale(form, bodies[0]))
    for _ in range(data.draw(st.integers(1, 4))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    values = [*(framed_sale(form, body) for body in bodies), bytes(spoiled), None, b"", b"\xc3\x01"]
    table = StreamTable("sales", "sales", "Sales.", COLUMNS, ["id"], format=form)
    rows = rows_twice(values, table.rules())
    assert {row["_reason"] for row in rows} <= {None, *KNOWN_REASONS}
    with_registry = replace(table, format=Avro()).rules(SCHEMAS)
    framed = pa.array([add_frame(7, body) for body in bodies], pa.binary())
    assert decode_values(framed, None, with_registry, None).verdicts.to_pylist() == rows[: len(bodies)]


@pytest.mark.parametrize("table", [PLAIN, SINGLE])
def test_a_line_is_written_by_the_last_declared_schema(table: StreamTable) -> None:
    value = table.format.writer()(b'{"id": "a", "items": 3}')
    assert table.decode(value) == ROW
    assert value == (BODY if table is PLAIN else single_object(SECOND, BODY))
    with pytest.raises(UnwritableError, match="it does not fit the schema: "):
        table.format.writer()(b'{"id": 5}')


def test_no_registry_is_needed() -> None:
    for table in (PLAIN, SINGLE):
        assert not table.has_schemas
        assert not table.format.framed
    assert replace(PLAIN, format=Avro()).has_schemas


def test_a_declaration_sees_a_schema_that_means_something_else() -> None:
    documented = Avro(schema=json.dumps({**SECOND, "doc": "An order."}, indent=2))
    assert replace(PLAIN, format=documented).fingerprint == PLAIN.fingerprint
    for changed in (Avro(schema=TEXTS[1].replace('"int"', '"long"')), Avro(schemas=TEXTS[1:]), SINGLE.format, Avro()):
        table = replace(PLAIN, format=changed)
        assert table.fingerprint != PLAIN.fingerprint
        ((part, sentence),) = [item for item in differences(facts_of(PLAIN), facts_of(table)) if "format" in item[1]]
        assert part == "table"
        assert sentence.startswith("table: format was Avro(schema=")


def test_the_order_of_schemas_does_not_change_a_declaration() -> None:
    assert replace(SINGLE, format=Avro(schemas=TEXTS[::-1])).fingerprint == SINGLE.fingerprint
