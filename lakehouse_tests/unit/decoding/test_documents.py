"""Documents of MongoDB: plain values, positions, and the reasons of what is not read."""

import json
import random
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.declaration import Column, Debezium, Delete, RecordKey, StreamTable
from lakehouse.decoding.formats import likely_formats
from lakehouse.errors import DeclarationError
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.documents import MONGODB, as_expected, document_change, key_of, orders, records_in

OID = "65a000000000000000000001"
TEXT = Column("v", "STRING", written="json", doc="Any value, as plain JSON.")
KEY = Column("id", "STRING", source=RecordKey("json", "id"), required=True, doc="Its id.")
VALUES = [
    ({"$oid": OID}, f'"{OID}"'),
    ({"$numberInt": "7"}, "7"),
    ({"$numberLong": "9007199254740993"}, "9007199254740993"),
    ({"$numberDouble": "1.50"}, "1.50"),
    ({"$numberDecimal": "1E+3"}, "1E+3"),
    ({"$date": 1767225600123}, '"2026-01-01T00:00:00.123000Z"'),
    ({"$date": {"$numberLong": "-1000"}}, '"1969-12-31T23:59:59Z"'),
    ({"$date": "2026-01-01T01:00:00+01:00"}, '"2026-01-01T00:00:00Z"'),
    ({"$binary": "AQI=", "$type": "00"}, '"AQI="'),
    ({"$binary": {"base64": "AQI=", "subType": "00"}}, '"AQI="'),
    ({"$uuid": "0f"}, '"0f"'),
    ({"$symbol": "s"}, '"s"'),
    ({"a": [{"$oid": OID}, {"b": {"$numberLong": "1"}}]}, f'{{"a":["{OID}",{{"b":1}}]}}'),
    ({"$numberLong": "seven"}, '{"$numberLong":"seven"}'),
    ({"$date": 10**16}, '{"$date":10000000000000000}'),
    ({"$oid": None}, '{"$oid":null}'),
    ({"$timestamp": {"t": 1, "i": 2}}, '{"$timestamp":{"t":1,"i":2}}'),
    ({"$oid": OID, "more": 1}, f'{{"$oid":"{OID}","more":1}}'),
    ({}, "{}"),
]


NAMES = ("$oid", "$uuid", "$symbol", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal")


def judge(value: bytes | None, table: StreamTable, key: bytes = key_of(1)) -> dict[str, Any]:
    (verdict,) = rows_twice([value], table.rules(), {"key": [key]})
    return dict(verdict)


@pytest.mark.parametrize(("raw", "text"), VALUES)
def test_a_value_that_names_its_type_is_plain_json(raw: Any, text: str) -> None:
    assert judge(document_change("c", (1, 1), {"v": raw}), orders("t", KEY, TEXT))["v"] == text


def test_a_number_that_is_not_finite_is_rejected() -> None:
    value = document_change("c", (1, 1), {"total": {"$numberDecimal": "NaN"}})
    assert judge(value, orders())["_reason"] == "not_finite"


def test_the_position_is_the_second_and_the_number_in_it() -> None:
    places = [(1767225660, 1), (1767225660, 2), (1767225661, 1)]
    sequences = [judge(document_change("u", place, {}), orders())["_sequence"] for place in places]
    assert sequences == sorted({*sequences})
    for ts_ms in (2**31 * 1000, None, "1", -1):
        value = document_change("u", (1, 1), {}, ts_ms=ts_ms)
        assert judge(value, orders())["_reason"] == "no_source_position"


@pytest.mark.parametrize(
    ("after", "reason", "detail"),
    [
        (None, "no_document", "capture.mode=change_streams_update_full"),
        ("[1]", "invalid_change", "'after' holds an array, expected an object"),
        ("{", "truncated", "at character 1"),
        ('{"a":1,"a":2}', "duplicate_name", "'a' occurs more than once"),
    ],
)
def test_a_change_without_a_document_is_rejected(after: Any, reason: str, detail: str) -> None:
    verdict = judge(document_change("u", (1, 1), after), orders())
    assert verdict["_reason"] == reason
    assert detail in verdict["_detail"]


def test_an_object_in_place_of_a_text_is_of_another_database() -> None:
    value = document_change("u", (1, 1), None).replace(b'"after": null', b'"after": {}')
    verdict = judge(value, orders())
    assert (verdict["_reason"], "remove documents=True" in verdict["_detail"]) == ("invalid_change", True)


def test_a_key_in_the_document_is_refused_because_deletes_have_none() -> None:
    with pytest.raises(DeclarationError, match=r"key column id is not in the record.s key.*RecordKey\('json', 'id'\)"):
        orders("t", Column("id", "STRING", source="_id", required=True, doc=""))
    with pytest.raises(DeclarationError, match="documents=True of Debezium cannot be combined"):
        orders(form=Debezium(documents=True, flattened=True))


def test_the_format_is_recognised_and_says_what_the_connector_needs() -> None:
    form = Debezium(documents=True)
    assert likely_formats([document_change("c", (1, 1), {"a": 1})])[0] == form
    assert form.connector_settings(())["capture.mode"] == "change_streams_update_full"
    assert form.declared_as == "Debezium(documents=True)"


def test_100_000_documents_with_faults_have_the_same_values_alone_and_by_a_reference() -> None:
    rng = random.Random(54)
    table = orders("t", KEY, TEXT, Column("n", "BIGINT", doc="A number."))
    values = [random_change(rng) for _ in range(100_000)]
    verdicts = rows_twice(values, table.rules(), {"key": [key_of(number) for number in range(len(values))]})
    row_count = 0
    for number, (value, verdict) in enumerate(zip(values, verdicts, strict=True)):
        expected = reference(value)
        assert (verdict["_reason"] is None) == (expected is not None), (value, verdict)
        if expected is not None:
            row_count += 1
            assert (verdict["id"], verdict["n"]) == (str(number), expected["n"])
            text = verdict["v"] or "null"
            assert json.loads(text, parse_float=Decimal, parse_int=Decimal) == expected["v"], value
    assert 20_000 < row_count < 90_000


def random_change(rng: random.Random) -> bytes:
    """A change of a document; one in three has a fault."""
    raw, _ = rng.choice(VALUES[:13])
    number: Any = rng.choice([1, None, {"$numberLong": "5"}, {"$numberInt": "-3"}])
    faults: list[Any] = [number] * 12 + ["x", {"$numberLong": ""}, {"$numberLong": "9" * 30}, {"$oid": "1"}, 1.5, []]
    text = json.dumps({"_id": {"$oid": OID}, "v": raw, "n": rng.choice(faults)})
    if rng.random() < 0.2:
        place = rng.randrange(len(text))
        text = rng.choice([text[:place], text[:place] + rng.choice('{}[]",:x') + text[place + 1 :], "null", "1"])
    return document_change(rng.choice("cur"), (1, 1), text)


def reference(value: bytes) -> dict[str, Any] | None:
    """The values of a change by other means; ``None`` if it cannot be read."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError(pairs)
        return dict(pairs)

    try:
        document = json.loads(json.loads(value)["after"], object_pairs_hook=unique, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return None
    if not isinstance(document, dict):
        return None
    number = plain(document.get("n"))
    is_whole = isinstance(number, int | float | Decimal) and not isinstance(number, bool) and number == int(number)
    if number is not None and not (is_whole and abs(number) < 2**63):
        return None
    return {"n": number, "v": plain(document.get("v"))}


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    name, raw = next(iter(value.items()), ("", None))
    if name == "$binary" and len(value) <= 2:
        raw = raw.get("base64") if isinstance(raw, dict) else raw
        return raw if isinstance(raw, str) else value
    if len(value) == 1 and name == "$date":
        return plain_time(plain(raw), value)
    if len(value) == 1 and isinstance(raw, str) and name in NAMES:
        return plain_number(raw, value) if name.startswith("$number") else raw
    return {inner_name: plain(inner) for inner_name, inner in value.items()}


def plain_number(text: str, value: Any) -> Any:
    try:
        return Decimal(text)
    except ArithmeticError:
        return value


def plain_time(raw: Any, value: Any) -> Any:
    if isinstance(raw, str) and not re.fullmatch(r"\S{10}T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)", raw):
        return value
    try:
        time = datetime.fromisoformat(raw) if isinstance(raw, str) else datetime.fromtimestamp(float(raw) / 1000, UTC)
    except (ValueError, TypeError):
        return value
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


@pytest.mark.skipif(not MONGODB.is_dir(), reason=f"the changes of MongoDB are not at {MONGODB}")
def test_the_reported_changes_leave_the_right_documents() -> None:
    expected = json.loads((MONGODB / "expected.json").read_text())
    table, rows = orders(), dict[str, tuple[int, dict[str, Any] | None]]()
    for key, value in records_in(MONGODB):
        verdict = judge(value, table, key)
        if verdict["_reason"] or verdict["_rowless"]:
            assert verdict["_reason"] in (None, "no_document")
            continue
        answer = table.decode(value, key=key)
        row = None if isinstance(answer, Delete) else answer
        position, _ = rows.get(verdict["id"], (-1, None))
        if verdict["_sequence"] >= position:
            rows[verdict["id"]] = verdict["_sequence"], row
    assert [as_expected(row) for _, (_, row) in sorted(rows.items()) if row] == sorted(
        expected["rows"], key=lambda row: row["id"]
    )


def test_a_flattened_change_of_mongodb_still_has_no_position() -> None:
    columns = [Column("id", "BIGINT", required=True, doc="")]
    table = StreamTable("t", "t", "", columns, ["id"], format=Debezium(flattened=True))
    value = b'{"id": 1, "__op": "c", "__connector": "mongodb", "__source_ts_ms": 1000, "__source_ord": 1}'
    assert judge(value, table)["_reason"] == "no_source_position"
