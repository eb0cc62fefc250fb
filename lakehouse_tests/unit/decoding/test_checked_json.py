"""JSON that is checked by the schema of its id: what is rejected and why, and which schemas cannot be used."""

import json
import pickle
import sys
from dataclasses import replace
from typing import Any

import pytest

from lakehouse import writer_schema
from lakehouse.declaration import Column, Compressed, Json, StreamTable
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import RegisteredSchema, Schemas, UnusableSchemaError, UnwritableError
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.one_record import judge_record
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

FORM = Json(framed=True, checked=True)
NEXT = '{"next": '
NODE = {"properties": {"next": {"oneOf": [{"$ref": "#/definitions/Node"}, {"$ref": "#/definitions/Other"}]}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer", "maximum": 1e30},
        "price": {"type": "number", "multipleOf": 0.01},
        "sku": {"type": "string", "pattern": "^[A-Z]+-\\d$", "maxLength": 6},
        "note": {"oneOf": [{"type": "null"}, {"type": "string", "minLength": 2}]},
        "lines": {"type": "array", "items": {"properties": {"n": {"enum": [1, True, "a"]}}}, "uniqueItems": True},
        "hostile": {"pattern": "(a+)+$"},
        "node": {"$ref": "#/definitions/Node"},
    },
    "definitions": {"Node": NODE, "Other": {**NODE, "required": ["other"]}},
}
COLUMNS = [Column("id", "BIGINT", "Number.", required=True), Column("note", "STRING", "A note.")]
TABLE = StreamTable("t", "t", "", COLUMNS, ["id"], format=FORM)


def schemas_of(schema: Any = None, **references: str) -> Schemas:
    """Schema 7 as a registry has it; schema 8 cannot be used."""
    registered = RegisteredSchema(json.dumps(schema or SCHEMA), (), "JSON", tuple(references.items()))
    return Schemas({7: FORM.writer_schema(registered)}, {8: "it is too old"})


def decode(*values: bytes | None, table: StreamTable = TABLE) -> list[dict[str, Any]]:
    """The rows of values, which both paths decode to the same."""
    return list(rows_twice(values, table.rules(schemas_of())))


VIOLATIONS = {
    '{"note": "x1"}': 'the value is an object of 1: "id" is a required property (required)',
    '{"id": 1.5}': "'id' is a number '1.5': it is not of type \"integer\" (type)",
    '{"id": true}': "'id' is true or false: it is not of type \"integer\" (type)",
    '{"id": 1e400}': "'id' is a number '1E+400': it is greater than the maximum of 1000000000000000000000000000000"
    " (maximum)",
    '{"id": 1, "other": 2}': "the value is an object of 2: Additional properties are not allowed"
    " ('other' was unexpected) (additionalProperties)",
    '{"id": 1, "price": 19.999}': "'price' is a number '19.999': it is not a multiple of 0.01 (multipleOf)",
    '{"id": 1, "sku": "A-1\\n"}': "'sku' is text 'A-1\\n': it does not match \"^[A-Z]+-\\\\d$\" (pattern)",
    '{"id": 1, "sku": "ABCDE-1"}': "'sku' is text 'ABCDE-1': it is longer than 6 characters (maxLength)",
    '{"id": 1, "note": "x"}': "'note' is text 'x': it is shorter than 2 characters (minLength)",
    '{"id": 1, "note": 5}': "'note' is a number '5': it is not valid under any of the schemas listed in the 'oneOf'"
    " keyword (oneOf)",
    '{"id": 1, "lines": [{}, {"n": 2}]}': "'lines[1].n' is a number '2': it is not one of 1, true or \"a\" (enum)",
    '{"id": 1, "lines": [{"n": 1, "m": 0}, {"m": 0.0, "n": 1.0}]}': "'lines' is an array of 2:"
    " it has non-unique elements (uniqueItems)",
}


@pytest.mark.parametrize(("record", "detail"), VIOLATIONS.items(), ids=VIOLATIONS)
def test_a_record_that_does_not_meet_its_schema_is_rejected_with_its_path(record: str, detail: str) -> None:
    (row,) = decode(add_frame(7, record.encode()))
    assert (row["_reason"], row["_detail"]) == ("schema_violation", detail)


@pytest.mark.parametrize(
    "record",
    [
        '{"id": 1, "note": null, "price": 19.99, "sku": "AB-1"}',
        '{"id": 1.0, "price": 1e400}',
        '{"id": 0, "price": 0.00}',
        '{"id": 1, "lines": [{"n": 1}, {"n": true}, {"n": "a"}, {"n": 1.0, "m": 1}]}',
        '{"id": 1, "node": {"next": {"next": {}}}, "lines": ["\\ud800"]}',
    ],
)
def test_a_record_that_meets_its_schema_is_a_row(record: str) -> None:
    (row,) = decode(add_frame(7, record.encode()))
    assert (row["_reason"], row["_detail"]) == (None, None)


def test_ids_and_values_that_are_not_json_are_rejected_as_in_other_formats() -> None:
    rows = decode(
        *(add_frame(8, b"{}"), add_frame(9, b"{}"), b'{"id": 1}', add_frame(7, b'{"id": 1, "id": 1}'), None),
        *(add_frame(7, b'{"id": NaN}'), add_frame(7, b"[]"), add_frame(7, b'{"id": 1}')),
    )
    reasons = ["unusable_schema", "unknown_schema", "wrong_magic", "duplicate_name", "tombstone"]
    assert [row["_reason"] for row in rows] == [*reasons, "not_finite", "not_an_object", None]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (f'{{"id": 1, "hostile": "{"a" * 300_000}b"}}', "schema_violation"),
        (f'{{"id": 1, "price": {"9" * 1_000_000}.001}}', "schema_violation"),
        (f'{{"id": {"9" * 1_000_000}}}', "schema_violation"),
        (f'{{"id": 1, "node": {NEXT * 40}5{"}" * 40}}}', "schema_violation"),
        (f'{{"id": 1, "node": {NEXT * 190}5{"}" * 190}}}', "schema_violation"),
        (f'{{"id": 1, "node": {NEXT * 500}5{"}" * 500}}}', "too_large"),
        (f'{{"id": 1, "lines": [{"[" * 400}{"]" * 400}]}}', "too_large"),
        (f'{{"id": 1, "{chr(0x1F600) * 100_000}": 1}}', "schema_violation"),
    ],
    ids=["pattern", "decimals", "digits", "doubling", "deepest", "deep", "deep items", "long name"],
)
def test_a_hostile_record_is_rejected_without_delay_and_with_a_short_detail(record: str, reason: str) -> None:
    """Each of them would take a library hours, or stop the process."""
    (row,) = decode(add_frame(7, record.encode()))
    assert row["_reason"] == reason
    assert len(row["_detail"]) <= 400


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "strin"}, "it is not JSON Schema: 'type'"),
        ({"minLength": "3"}, "it is not JSON Schema: 'minLength'"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 3}, "it is not JSON Schema"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "not draft 4, 6, 7, 2019-09 or 2020-12"),
        ({"$ref": "http://127.0.0.1:1/other.json"}, "refers to 'http://127.0.0.1:1/other.json', which is neither"),
        ({"$ref": "#/definitions/Gone"}, "refers to '#/definitions/Gone'"),
        ({"pattern": "^(?!a)b"}, "its pattern '^(?!a)b' cannot be used: it has a look-around, a back-reference"),
        ({"patternProperties": {r"(a)\1": {}}}, "cannot be used: it has a look-around"),
        ({"items": {"pattern": r"\ba"}}, "cannot be used: it has a look-around"),
        ({"patternProperties": {"[": {}}}, "it is not JSON Schema: 'patternProperties'"),
        ({"pattern": "[\\p{L}\\p{N}]{2000}"}, "it is not JSON Schema: 'pattern'"),
        ({"pattern": "(" * 300 + ")" * 300}, "it is not JSON Schema: 'pattern'"),
        ({"pattern": "a{9999999}"}, "more than 2000 steps"),
        ({"pattern": "(((a{99}){99}){99}){99}"}, "more than 2000 steps"),
        ({"anyOf": [{"$ref": "#"}]}, "refers to itself for the same value"),
        ({"allOf": [{"not": {"anyOf": [{"$ref": "#"}]}}]}, "refers to itself for the same value"),
        ({"$id": "http://[x"}, "it is not JSON Schema"),
        ({"items": {"$id": "http://[x"}}, "it is not JSON Schema"),
        ({"items": {"$ref": "#/x"}, "x": {"pattern": []}}, "it is not JSON Schema: 'pattern'"),
        ({"items": {"$ref": "#/x"}, "x": {"patternProperties": 5}}, "it is not JSON Schema: 'patternProperties'"),
        ({"items": {"$ref": "#/x"}, "x": {"enum": 5}}, "it is not JSON Schema: 'enum'"),
        ({"items": {"$ref": "#/x"}, "x": {"$ref": None}}, "it is not JSON Schema: '$ref'"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "$ref": 5}, "it is not JSON Schema: '$ref'"),
        ({"prefixItems": [{"$recursiveRef": 5}]}, "it is not JSON Schema: '$recursiveRef'"),
        ({"items": {"$ref": "#/x"}, "x": {"pattern": "(?=a)"}}, "cannot be used: it has a look-around"),
        ({"enum": [n / 8 for n in range(1, 2_000)]}, "can apply more than 10000 schemas to one value"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_check_records_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableSchemaError) as error:
        schemas_of(schema)
    assert message in str(error.value)


@pytest.mark.parametrize("text", ['{"type": "object", "type": "array"}', "{", "[" * 100_000, '{"minLength": 1e400}'])
def test_a_text_that_is_not_strict_json_is_refused(text: str) -> None:
    with pytest.raises(UnusableSchemaError):
        FORM.writer_schema(RegisteredSchema(text, (), "JSON"))
    with pytest.raises(UnusableSchemaError, match="schema of AVRO"):
        FORM.writer_schema(RegisteredSchema("{}", (), "AVRO"))


def test_references_are_found_by_their_names_in_the_registry_or_by_their_ids() -> None:
    schema = {
        "$id": "https://shop.test/order.json",
        "properties": {"buyer": {"$ref": "buyer.json#/definitions/City"}, "seller": {"$ref": "https://x.test/seller"}},
    }
    buyer = '{"definitions": {"City": {"type": "string"}}}'
    seller = '{"$id": "https://x.test/seller", "properties": {"city": {"$ref": "buyer.json#/definitions/City"}}}'
    schemas = schemas_of(schema, **{"buyer.json": buyer, "seller.json": seller})
    parse = FORM.parser(schemas)
    assert parse(add_frame(7, b'{"buyer": "Oslo", "seller": {"city": "Bergen"}}'))
    for record in (b'{"buyer": 5}', b'{"seller": {"city": 5}}'):
        with pytest.raises(Rejection, match=r"it is not of type .*string"):
            parse(add_frame(7, record))


def test_fields_that_match_no_pattern_meet_the_schema_of_additional_fields() -> None:
    schema = {"patternProperties": {"^s": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    parse = FORM.parser(schemas_of(schema))
    assert parse(add_frame(7, b'{"s": "a", "n": 1}'))
    for record in (b'{"s": 1}', b'{"n": "a"}'):
        with pytest.raises(Rejection, match="it is not of type"):
            parse(add_frame(7, record))


def test_two_referenced_schemas_with_one_name_are_refused() -> None:
    registered = RegisteredSchema("{}", (), "JSON", (("a", "{}"), ("a", '{"type": "null"}')))
    with pytest.raises(UnusableSchemaError, match="the same name"):
        FORM.writer_schema(registered)


def test_a_prepared_schema_can_be_used_again_and_its_spacing_does_not_change_its_meaning() -> None:
    schema, spaced = writer_schema('{"minimum": 1.50}', kind="JSON"), writer_schema('{ "minimum" :1.50}', kind="JSON")
    assert FORM.can_use(schema)
    assert not FORM.can_use(schema._replace(text='{"schema": {"pattern": "("}, "references": {}}'))
    assert FORM.fingerprint(schema) == FORM.fingerprint(spaced)
    assert FORM.fingerprint(schema) != FORM.fingerprint(writer_schema('{"minimum": 1.5}', kind="JSON"))


def test_a_line_that_does_not_meet_its_schema_is_not_written() -> None:
    schemas = schemas_of()
    write = FORM.writer(7, schemas.by_id[7])
    assert write(b'{"id": 1}') == add_frame(7, b'{"id": 1}')
    with pytest.raises(UnwritableError, match="it does not fit schema 7: the value is an object of 0"):
        write(b"{}")


def test_compressed_records_are_checked_too() -> None:
    form = Compressed(FORM, "gzip")
    write = form.writer(7, schemas_of().by_id[7])
    good, table = write(b'{"id": 1}'), replace(TABLE, format=form)
    bad = Compressed(Json(framed=True), "gzip").writer(7)(b'{"id": "1"}')
    assert [row["_reason"] for row in decode(good, bad, table=table)] == [None, "schema_violation"]


def test_a_record_that_is_an_array_is_checked_as_a_whole() -> None:
    parse = FORM.parser(schemas_of({"type": "array", "maxItems": 2})).of_arrays()
    assert parse(add_frame(7, b"[1, 2]"))
    with pytest.raises(Rejection, match="the value is an array of 3: it has more than 2 items"):
        parse(add_frame(7, b"[1, 2, 3]"))


def reason_by(schema: Any, value: Any) -> str | None:
    """Why a value of the field ``a`` is rejected by a schema of the record."""
    record = add_frame(7, json.dumps({"id": 1, "a": value}).encode())
    (verdict,) = judge_record(record, TABLE.rules(schemas_of(schema)), {})
    return verdict.reason


@pytest.mark.invariant("8.11")
@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "properties"])
def test_a_schema_that_could_be_applied_in_very_many_ways_is_refused(keyword: str) -> None:
    """The library would apply the last one 2 ** 60 times."""
    ways: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(30)}
    if keyword == "anyOf":
        ways = {name: {"anyOf": way["allOf"]} for name, way in ways.items()}
    if keyword == "properties":
        ways = {name: {"allOf": [{"properties": {"a": way}} for way in ways["allOf"]]} for name, ways in ways.items()}
    schema = {"properties": {"a": {"$ref": "#/definitions/d0"}}, "definitions": {**ways, "d30": {"type": "string"}}}
    with pytest.raises(UnusableSchemaError, match="can apply more than 10000 schemas to one value"):
        schemas_of(schema)


@pytest.mark.invariant("8.11")
def test_a_schema_that_applies_very_many_others_within_each_other_is_refused() -> None:
    chain: dict[str, Any] = {f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(5_000)}
    schema = {"$ref": "#/definitions/d0", "definitions": {**chain, "d5000": {}}}
    with pytest.raises(UnusableSchemaError, match="more than 100 schemas within each other"):
        schemas_of(schema)
    chain = {f"d{n}": {"properties": {"a": {"$ref": f"#/definitions/d{n + 1}"}}} for n in range(2_000)}
    schema = {"$ref": "#/definitions/d0", "definitions": {**chain, "d2000": {"type": "string"}}}
    assert reason_by(schema, {"a": 5}) is None


@pytest.mark.invariant("8.11")
def test_a_violation_that_takes_too_much_to_explain_is_rejected_without_its_place() -> None:
    schema = {"properties": {"a": {"anyOf": [{"items": {"type": "null"}}, {"type": "null"}]}}}
    for size, message in ((10, "it is not of type"), (100_000, "too large to say where")):
        with pytest.raises(Rejection, match=message):
            FORM.parser(schemas_of(schema))(add_frame(7, json.dumps({"a": [1] * size}).encode()))
    large_record = json.dumps({"a": [None] * 300_000 + [1]}).encode()
    with pytest.raises(Rejection, match=r"a\[300000\]\S+ is a number \S+ it is not of type"):
        FORM.parser(schemas_of({"properties": {"a": {"items": {"type": "null"}}}}))(add_frame(7, large_record))


@pytest.mark.invariant("8.11")
def test_numbers_with_equal_hashes_are_compared_quickly() -> None:
    schema = {"properties": {"a": {"uniqueItems": True}}}
    numbers = [(2**61 - 1) * n for n in range(1, 30_000)]
    assert reason_by(schema, numbers) is None
    assert reason_by(schema, [*numbers, numbers[7]]) == "schema_violation"
    assert reason_by(schema, [1, 10, 100, 0.1, 0.01, -1, 0]) is None
    for equal_numbers in ([1, 1.0], [100, 1e2], [0, -0.0], [0.5, 0.50]):
        assert reason_by(schema, equal_numbers) == "schema_violation"
    nearly_equal_numbers = [10**30 + n for n in range(30_000)]
    assert reason_by(schema, nearly_equal_numbers) == "too_large"
    assert reason_by({"properties": {"a": {"items": {"type": "integer"}}}}, nearly_equal_numbers) is None
    tiny_numbers = ", ".join(f"1e-{400 + n * 9}" for n in range(999))
    with pytest.raises(Rejection, match="too many long numbers"):
        FORM.parser(schemas_of(schema))(add_frame(7, f'{{"a": [{tiny_numbers}]}}'.encode()))


@pytest.mark.invariant("8.11")
def test_a_text_that_is_too_long_for_a_pattern_is_too_large_after_any_other_text() -> None:
    schema = {"properties": {"a": {"pattern": "a" + "[ab]" * 1_900 + "c"}}}
    assert reason_by(schema, "ab" * 1_000) == "schema_violation"
    assert reason_by(schema, "ab" * 10_000) == "too_large"
    assert reason_by({"properties": {"a": {"pattern": "^[ab]+$"}}}, "ab" * 100_000) is None


def test_a_process_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = schemas_of()
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    assert Json(framed=True).parser(schemas)(add_frame(7, b'{"id": 1}'))
    with pytest.raises(RuntimeError, match="on every worker: pip install jsonschema-rs"):
        FORM.parser(schemas)(add_frame(7, b'{"id": 1}'))


def test_the_check_of_a_table_is_sent_to_workers_without_the_library() -> None:
    """A validator cannot be sent, so each process makes its own."""
    parser = FORM.parser(schemas_of())
    assert pickle.loads(pickle.dumps(parser))(add_frame(7, b'{"id": 1}'))  # noqa: S301 - our own
