"""One record with many rows: each element of an array is a row, judged for itself."""

import gzip
import json
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import (
    BrokerTime,
    Column,
    Compressed,
    Delete,
    Deletes,
    Element,
    ElementIndex,
    Explode,
    FieldExists,
    FieldIs,
    HeaderIs,
    Json,
    Late,
    ParentField,
    RecordHeader,
    RecordKey,
    Rejection,
    StreamTable,
    Time,
)
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse.decoding.one_record import judge_record
from lakehouse.decoding.record_parts import TIME
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, rows_twice
from lakehouse_tests.helpers.decoding.decoded_rows import element_rows
from lakehouse_tests.helpers.decoding.native import uncertain_records

ORDER_ID = Column("order_id", "BIGINT", "Number of the order.", required=True, source=ParentField("id"))
SKU = Column("sku", "STRING", "Article.", required=True)
PIECES = Column("pieces", "INT", "How many.", source=("amount", "pieces"))
ITEMS = StreamTable("items", "orders", "Items.", [ORDER_ID, SKU, PIECES], ["order_id", "sku"], rows_from="items")


def items(*elements: Any, **parent: Any) -> bytes:
    return json.dumps({"id": 1, "items": list(elements)} | parent).encode()


def log(*columns: Column, **options: Any) -> StreamTable:
    return StreamTable("log", "log", "A log.", columns, [], **{"rows_from": "items"} | options)


def test_the_place_of_an_element_counts_those_that_are_rejected_and_a_field_of_its_name_is_not_read() -> None:
    place = Column("index", "INT", "Place.", required=True, source=ElementIndex())
    table = replace(ITEMS, columns=[ORDER_ID, place, SKU], key=["order_id", "index"])
    value = items({"sku": "a", "index": 9}, {"sku": 7}, {"sku": "a"})
    assert element_rows(table, value) == [
        {"order_id": 1, "index": 0, "sku": "a"},
        "wrong_type",
        {"order_id": 1, "index": 2, "sku": "a"},
    ]
    deleting = replace(table, deletes=Deletes(when=FieldIs("gone", [True])))
    assert element_rows(deleting, items({"sku": "a"}, {"gone": True}))[1] == Delete(order_id=1, index=1)


@pytest.mark.parametrize("element", [{"sku": "a", "amount": {"pieces": 2}}, {"sku": "a", "amount": '{"pieces": 2}'}])
def test_a_single_object_in_place_of_the_array_is_a_row_if_that_is_declared(element: dict[str, Any]) -> None:
    table = replace(ITEMS, rows_from=Explode("items", single_object=True))
    row = {"order_id": 1, "sku": "a", "pieces": 2}
    for place in (element, [element], json.dumps(element), json.dumps([element])):
        assert element_rows(table, json.dumps({"id": 1, "items": place}).encode()) == [row]
        ((verdict,),) = rows_twice([json.dumps({"id": 1, "items": place}).encode()], table.rules())
        assert (verdict["_index"], verdict["_reason"]) == (0, None)
    assert element_rows(table, items() + b"") == [] and element_rows(table, b'{"id": 1, "items": 5}') == ["wrong_type"]
    assert element_rows(ITEMS, json.dumps({"id": 1, "items": element}).encode()) == ["wrong_type"]


def test_single_objects_take_the_fast_path_and_their_other_fields_are_counted_by_name() -> None:
    table = replace(ITEMS, rows_from=Explode("items", single_object=True))
    record = b'{"id": 1, "items": {"sku": "a", "amount": {"pieces": 1, "unit": "kg"}, "color": "red"}}'
    assert uncertain_records(pa.array([record], pa.binary()), None, table.rules()) == []
    assert decode_twice([record], table.rules()).unmapped_counts == {"items[].color": 1, "items[].amount.unit": 1}


def test_a_record_that_is_a_single_object_is_a_row_if_that_is_declared() -> None:
    table = log(SKU, rows_from=Explode((), single_object=True))
    assert element_rows(table, b'{"sku": "a"}') == element_rows(table, b'[{"sku": "a"}]') == [{"sku": "a"}]
    assert element_rows(log(SKU, rows_from=()), b'{"sku": "a"}') == ["wrong_type"]


def test_objects_one_after_another_are_rows_if_that_is_declared() -> None:
    table, rows = log(SKU, rows_from=Explode((), single_object=True)), [{"sku": "a"}, {"sku": "}{"}]
    for value in (b'{"sku": "a"}{"sku": "}{"}', b' {"sku": "a"}\n\n{"sku":\n"}{"} '):
        assert element_rows(table, value) == rows
        ((first, second),) = rows_twice([value], table.rules())
        assert (first["_index"], second["_index"]) == (0, 1)
        assert element_rows(log(SKU, rows_from=()), value) == ["trailing_bytes"]
    assert element_rows(table, b'{"sku": "a"}, {"sku": "b"}') == ["trailing_bytes"]
    assert element_rows(table, b'[{"sku": "a"}]{"sku": "b"}') == ["trailing_bytes"]
    assert element_rows(table, b'{"sku": "a"}{"sku": ') == ["truncated"]
    assert element_rows(table, b'{"sku": "a"}{"sku": x}') == ["invalid_json"]


def test_each_element_is_a_row_with_fields_of_the_record_around_it() -> None:
    value = items({"sku": "a", "amount": {"pieces": 2}}, {"sku": "b"}, id=7)
    assert element_rows(ITEMS, value) == [
        {"order_id": 7, "sku": "a", "pieces": 2},
        {"order_id": 7, "sku": "b", "pieces": None},
    ]


def test_elements_are_rejected_one_by_one() -> None:
    value = items({"sku": "a"}, {"sku": 5}, {}, 7, None, [], {"sku": "b", "amount": 3}, {"sku": "c"})
    reasons = ["wrong_type", "missing_field", "not_an_object", "not_an_object", "not_an_object", "wrong_type"]
    rows = element_rows(ITEMS, value)
    assert (rows[0]["sku"], rows[1:-1], rows[-1]["sku"]) == ("a", reasons, "c")


@pytest.mark.parametrize("record", [{"id": 1}, {"id": 1, "items": None}, {"id": 1, "items": []}, {"items": "null"}])
def test_a_record_without_elements_has_no_row(record: dict[str, Any]) -> None:
    assert element_rows(ITEMS, json.dumps(record).encode()) == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id": 1, "items": {"sku": "a"}}', "wrong_type"),
        (b'{"id": 1, "items": "a"}', "wrong_type"),
        (b'{"id": 1, "items": "[{"}', "truncated"),
        (b'[{"sku": "a"}]', "not_an_object"),
        (b'{"id": 1, "items": [{"sku": "a", "sku": "b"}]}', "duplicate_name"),
        (b'{"id": 1, "items": [{"sku": "a"}, {"sku"', "truncated"),
        (None, "tombstone"),
    ],
)
def test_a_record_that_cannot_be_taken_apart_is_rejected_as_a_whole(value: bytes | None, reason: str) -> None:
    assert element_rows(ITEMS, value) == [reason]
    assert [verdict.place for verdict in judge_record(value, ITEMS.rules(), {})] == [None]


def test_a_parent_field_that_cannot_be_read_rejects_each_element() -> None:
    assert element_rows(ITEMS, items({"sku": "a"}, {"sku": "b"}, id="x")) == ["wrong_type"] * 2
    assert element_rows(ITEMS, items(id="x")) == []


def test_messages_name_the_field_of_an_element() -> None:
    (row,) = ITEMS.decode_rows(items({"sku": 5}))
    assert isinstance(row, Rejection)
    assert row.detail == "'items[].sku' is a number '5', expected STRING"


def test_a_record_that_is_an_array_has_its_elements_as_rows() -> None:
    table = replace(ITEMS, columns=[SKU, PIECES], key=["sku"], rows_from=())
    assert element_rows(table, b'[{"sku": "a"}, 1]') == [{"sku": "a", "pieces": None}, "not_an_object"]
    assert [element_rows(table, value) for value in (b"[]", b"null", b"{}", b"7")] == [
        [],
        [],
        ["wrong_type"],
        ["wrong_type"],
    ]
    packed = replace(table, format=Compressed(Json(encoding="latin-1"), "gzip"))
    assert element_rows(packed, gzip.compress('[{"sku": "é"}]'.encode("latin-1"))) == [{"sku": "é", "pieces": None}]
    framed = replace(table, format=Json(framed=True))
    assert element_rows(framed, b'\0\0\0\0\1[{"sku": "a"}]') == [{"sku": "a", "pieces": None}]


def test_an_element_as_a_whole_is_a_column() -> None:
    table = log(Column("tag", "STRING", "A tag.", source=Element()))
    assert element_rows(table, items("a", None, 5)) == [{"tag": "a"}, {"tag": None}, "wrong_type"]
    texts = log(Column("element", "STRING", "Its text.", source=Element(), written="json"))
    assert element_rows(texts, items({"a": [1]}, 2)) == [{"element": '{"a":[1]}'}, {"element": "2"}]


def test_texts_on_the_way_to_rows_and_within_them_are_opened() -> None:
    element = json.dumps({"sku": "a", "amount": json.dumps({"pieces": 3})})
    value = json.dumps({"id": 1, "items": json.dumps([element, "{bad", {"sku": "b"}])}).encode()
    first, second, third = element_rows(ITEMS, value)
    assert (first["pieces"], second, third["sku"]) == (3, "invalid_json", "b")
    nested = replace(ITEMS, rows_from=("order", "items"))
    assert (
        len(element_rows(nested, json.dumps({"id": 1, "order": json.dumps({"items": [{"sku": "a"}]})}).encode())) == 1
    )


def test_other_parts_of_the_record_are_the_same_for_all_rows() -> None:
    columns = [
        Column("shop", "STRING", "Shop.", source=RecordKey()),
        Column("trace", "INT", "Trace.", source=RecordHeader("trace")),
        Column("sent_at", "TIMESTAMP", "When.", source=BrokerTime()),
        SKU,
    ]
    time = datetime(2026, 1, 1, tzinfo=UTC)
    rows = element_rows(
        log(*columns), items({"sku": "a"}, {"sku": "b"}), key=b"north", headers={"trace": b"7"}, time=time
    )
    assert [(row["shop"], row["trace"], row["sku"]) for row in rows] == [("north", 7, "a"), ("north", 7, "b")]
    assert {row["sent_at"].replace(tzinfo=UTC) for row in rows} == {time}


def test_where_is_about_the_record_and_deletes_are_about_the_element() -> None:
    table = replace(ITEMS, where=FieldIs("kind", ["order"]), deletes=Deletes(when=FieldIs("gone", [True])))
    value = items({"sku": "a", "gone": True, "amount": 5}, {"sku": "b", "gone": False}, kind="order", gone=True)
    verdicts = judge_record(value, table.rules(), {})
    assert [(verdict.deletes, verdict.row["sku"]) for verdict in verdicts] == [(True, "a"), (False, "b")]
    assert element_rows(table, items({"sku": "a"}, kind="other")) == ["filtered"]
    by_header = replace(ITEMS, where=HeaderIs("type", ["order"]))
    assert element_rows(by_header, b"not JSON", headers={"type": b"other"}) == ["filtered"]


def test_a_field_of_the_record_says_that_all_of_its_rows_are_deletes() -> None:
    deletes = FieldIs(ParentField("type"), ["DELETE"])
    columns = [Column("id", "BIGINT", "Number.", required=True), Column("n", "INT", "How many.")]
    table = StreamTable("t", "t", "T.", columns, ["id"], rows_from="data", deletes=Deletes(when=deletes))
    records = [
        b'{"type": "DELETE", "data": [{"id": "x"}, {"id": 104, "n": "?"}, {"id": 110}]}',
        b'{"type": "INSERT", "data": [{"id": 1, "n": 2}, {"id": 2, "type": "DELETE"}]}',
        b'{"data": [{"id": 3}]}',
        b'{"type": {"a": 1}, "data": [{"id": 4}]}',
    ]
    rows = [
        [(row["id"], row["_deleted"], row["_reason"]) for row in rows] for rows in rows_twice(records, table.rules())
    ]
    assert rows[:3] == [
        [(None, False, "wrong_type"), (104, True, None), (110, True, None)],
        [(1, False, None), (2, False, None)],
        [(3, False, None)],
    ]
    assert [reason for _, _, reason in rows[3]] == ["wrong_type"]
    assert uncertain_records(pa.array(records, pa.binary()), None, table.rules()) == [0, 3]


def test_a_delete_needs_only_its_key_of_the_parent() -> None:
    note = Column("note", "INT", "A note.", source=ParentField("note"))
    table = replace(ITEMS, columns=[*ITEMS.columns, note], deletes=Deletes(when=FieldIs("gone", [True])))
    rows = element_rows(table, items({"sku": "a", "gone": True}, {"sku": "b"}, note="x"))
    assert rows == [Delete({"order_id": 1, "sku": "a"}), "wrong_type"]


def test_lateness_is_that_of_each_element() -> None:
    at = Column("at", "TIMESTAMP", "When.", written=Time(epoch="seconds"))
    rules = log(at, late=Late("at", timedelta(seconds=5))).rules()
    verdicts = judge_record(items({"at": 100}, {"at": 1}, {}), rules, {TIME: 100 * 10**6})
    assert [(verdict.reason, verdict.late) for verdict in verdicts] == [(None, False), ("late", True), (None, False)]


def test_decode_refuses_a_table_whose_records_have_many_rows() -> None:
    with pytest.raises(ValueError, match="call decode_rows"):
        ITEMS.decode(items())
    plain = replace(ITEMS, columns=[SKU], key=["sku"], rows_from=None)
    assert plain.decode_rows(b'{"sku": "a"}') == [{"sku": "a"}]


@pytest.mark.invariant("8.11")
def test_a_record_with_too_many_elements_is_rejected_as_a_whole() -> None:
    value = b'{"id": 1, "items": [' + b"0," * (MAX_RECORD_MEMORY // 1_000) + b"0]}"
    assert element_rows(log(Column("n", "INT", "n", source=Element())), value) == ["too_large"]


@pytest.mark.invariant("8.11")
def test_a_long_text_that_every_row_repeats_counts_for_each() -> None:
    table = log(SKU, Column("note", "STRING", "A note.", source=ParentField("note")))
    elements = [{"sku": "a"}] * 2_000
    assert len(element_rows(table, items(*elements, note="x" * 10_000))) == 2_000
    assert element_rows(table, items(*elements, note="x" * 100_000)) == ["too_large"]
    by_key = log(SKU, Column("note", "STRING", "A note.", source=RecordKey()))
    assert element_rows(by_key, items(*elements), key=b"x" * 100_000) == ["too_large"]


def test_elements_of_another_kind_are_filtered_and_others_are_rejected_or_rows() -> None:
    """100,000 records; the reference reads each with the standard library."""
    rng = random.Random(54)
    table = StreamTable(
        *("stops", "feed", "Stops."),
        columns=[
            Column("id", "BIGINT", "Number.", required=True),
            Column("at", "INT", "Place.", source=("stop", "at")),
        ],
        key=["id"],
        rows_from=Explode("entity", where=FieldExists("stop")),
    )
    values = [drawn_feed(rng) for _ in range(100_000)]
    counts = Counter[str]()
    for value, verdicts in zip(values, rows_twice(values, table.rules()), strict=True):
        outcomes = [verdict["_reason"] or (verdict["id"], verdict["at"]) for verdict in verdicts]
        assert outcomes == expected_outcomes(value), value
        counts.update(outcome if isinstance(outcome, str) else "row" for outcome in outcomes)
    assert (
        min(
            counts[name]
            for name in ("row", "filtered", "empty", "wrong_type", "not_an_object", "null_field", "missing_field")
        )
        > 1_000
    )


def drawn_feed(rng: random.Random) -> bytes:
    """A record with elements of several kinds, some of them damaged."""

    def element() -> Any:
        kind: dict[str, Any] = rng.choice(
            [{"stop": {"at": rng.choice([1, 2, None, "x"])}}, {"trip": {"at": 1}}, {"stop": None}, {}]
        )
        number: dict[str, Any] = rng.choice([{"id": rng.randrange(9)}] * 5 + [{}, {"id": None}])
        return rng.choice([{**number, **kind}] * 9 + [5, None, "null", {**number, "stop": rng.choice([3, "{}", []])}])

    return json.dumps({"entity": [element() for _ in range(rng.randrange(4))]}).encode()


def expected_outcomes(value: bytes) -> list[Any]:
    """The outcome of each element by other means: its values, or a reason."""
    outcomes: list[Any] = []
    for element in json.loads(value)["entity"]:
        stop = element.get("stop") if isinstance(element, dict) else None
        stop = {} if stop == "{}" else stop
        if not isinstance(element, dict):
            outcomes.append("not_an_object")
        elif stop is None:
            outcomes.append("filtered")
        elif element.get("id") is None:
            outcomes.append("null_field" if "id" in element else "missing_field")
        elif not isinstance(stop, dict) or not isinstance(stop.get("at"), int | None):
            outcomes.append("wrong_type")
        else:
            outcomes.append((element["id"], stop.get("at")))
    return outcomes or ["empty"]


def test_a_person_sees_only_the_elements_of_the_kind() -> None:
    table = StreamTable(
        *("t", "t", "", [SKU], ()), rows_from=Explode("items", where=[FieldIs("kind", ["a"]), FieldExists("sku")])
    )
    value = b'{"items": [{"kind": "a", "sku": "x"}, {"kind": "b", "sku": 3}, {"kind": "a"}]}'
    assert table.decode_rows(value) == [{"sku": "x"}]
    assert [verdict.reason for verdict in judge_record(value, table.rules(), {})] == [None, "filtered", "filtered"]
    assert table.fingerprint != replace(table, rows_from="items").fingerprint
    record_table = replace(table, where=FieldExists("items"))
    with pytest.raises(Rejection, match="filtered"):
        record_table.decode_rows(b'{"item": []}')


def test_fields_of_filtered_elements_are_not_unmapped() -> None:
    table = StreamTable("t", "t", "", [SKU], (), rows_from=Explode("items", where=FieldIs("kind", ["a"])))
    values = [b'{"items": [{"kind": "a", "sku": "x", "more": 1}, {"kind": "b", "other": 3}, 5]}'] * 2
    decoded = decode_twice(values, table.rules())
    assert decoded.unmapped_counts == {"items[].more": 2}
    reasons = [row["_reason"] for row in decoded.verdicts.to_pylist()[0]]
    assert reasons == [None, "filtered", "not_an_object"]
