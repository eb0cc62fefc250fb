"""What a proposal says of odd records: several shapes, arrays, texts with JSON or bytes, and unreadable records."""

import json
from base64 import b64encode
from typing import Any

import pytest

from lakehouse.declaration import Column, Explode, StreamTable
from lakehouse.declaration.inference.proposal import propose
from lakehouse.decoding.fields import Rejection
from lakehouse_tests.helpers.proposals import infer, types


def test_the_fields_within_texts_that_hold_objects_become_columns() -> None:
    inner = json.dumps({"number": 1.5, "deep": json.dumps({"b": True})})
    proposal = infer({"a": 1, "payload": inner}, {"a": 2, "payload": None})
    assert types(proposal) == {"a": "BIGINT", "payload_number": "DOUBLE", "payload_deep_b": "BOOLEAN"}
    assert "Field 'payload' is a text that holds JSON." in proposal.warnings[0]
    assert "Field 'payload.deep' is a text that holds JSON." in proposal.warnings[1]
    for texts in ((inner, "other"), ("{}", " {}")):
        assert types(infer(*({"payload": text} for text in texts))) == {"payload": "STRING"}


def test_a_few_texts_that_hold_no_json_do_not_hide_the_fields_within_the_others_and_are_rejected() -> None:
    texts = [*(json.dumps({"number": number}) for number in range(99)), '{"number": ']
    proposal = infer(*({"id": number, "payload": text} for number, text in enumerate(texts)))
    assert types(proposal) == {"id": "BIGINT", "payload_number": "BIGINT"}
    (warning,) = [warning for warning in proposal.warnings if "holds JSON" in warning]
    assert "holds JSON in 99 of 100 records" in warning
    assert "Records in which it holds none, such as '{\"number\": ', are then rejected" in warning
    table = StreamTable("t", "t", "", proposal.columns, proposal.key)
    with pytest.raises(Rejection, match="payload"):
        table.decode(json.dumps({"id": 1, "payload": texts[-1]}).encode())
    assert types(infer(*({"payload": text} for text in [*texts[:90], *["x"] * 10]))) == {"payload": "STRING"}


def test_the_most_common_reasons_of_unread_records_are_named_with_their_counts() -> None:
    values = [b'{"id": 1}', b"[", b"[", b"5", b"5", b"5", b"", b"\xff", b'{"id": 2']
    proposal = propose(values)
    assert (proposal.records, proposal.unread) == (9, 8)
    first, second, third = proposal.refusal.removesuffix(" and 2 more reasons").split("; ")
    assert (first[-3:], second[-3:], third[-3:]) == ("(3)", "(2)", "(1)")
    assert "(" not in propose([b'{"id": 1}', b"5"]).refusal


def test_objects_arrays_of_them_and_texts_that_hold_them_are_rows_of_one_table() -> None:
    item = {"id": 1, "name": "a"}
    values = [json.dumps(content).encode() for content in (item, [item, {"id": 2}], json.dumps(item), "x", [])]
    proposal = propose(values)
    assert (proposal.rows_from, proposal.single_object, types(proposal)) == (
        (),
        True,
        {"id": "BIGINT", "name": "STRING"},
    )
    assert (proposal.unread, proposal.refusal) == (1, "the value is text 'x', expected an object") or proposal.refusal
    table = StreamTable("t", "t", "", proposal.columns, (), rows_from=Explode((), single_object=True))
    assert [len(table.decode_rows(value)) for value in values[:3]] == [1, 2, 1]


def test_one_array_among_many_objects_is_an_odd_record() -> None:
    values = [*([b'{"id": 1}'] * 30), b'[{"id": 2}]']
    assert (propose(values).rows_from, propose(values).unread) == (None, 1)


@pytest.mark.parametrize(
    ("contents", "warning"),
    [
        (
            [b"\x01\x02\x03\x04\x05", b"\xff" * 9],
            'To store the bytes, write Column("frame", "BINARY", doc="", requi',
        ),
        ([b'{"a": 1}', b'{"a": 23}'], 'write format=Json(in_base64="frame") and source=("frame", "NAME").'),
        ([b"\xff" * 9], None),
        ([b"ab", b"\xff" * 9], None),
    ],
)
def test_texts_in_base64_are_named_unless_they_may_be_words(contents: list[bytes], warning: str | None) -> None:
    texts = [b64encode(content).decode() for content in contents]
    proposal = infer(*({"id": number, "frame": text} for number, text in enumerate(texts)))
    warnings = [text for text in proposal.warnings if text.startswith("frame")]
    assert [warning is not None and warning in text for text in warnings] == ([True] if warning else [])
    assert types(proposal)["frame"] == "STRING"


def test_the_time_of_an_event_may_have_any_form_of_its_standard() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/a", "type": "t", "time": "2026-01-01T00:00:00Z"}
    (column,) = [column for column in infer(event, {**event, "id": "2"}).columns if column.name == "time"]
    assert (column.type, column.time.pattern) == ("TIMESTAMP", "iso8601")
    (column,) = [column for column in infer({"id": 1, "time": event["time"]}).columns if column.name == "time"]
    assert column.time.pattern == "%Y-%m-%dT%H:%M:%SZ"


RECORD = {"timeUnixNano": "1767225600000000001", "body": {"stringValue": "a"}, "severityNumber": 9}
RESOURCE = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}


def logs(*records: Any) -> bytes:
    scopes = [{"scope": {"name": "s"}, "logRecords": list(records)}]
    return json.dumps({"resourceLogs": [{"resource": RESOURCE, "scopeLogs": scopes}]}).encode()


def test_each_array_within_an_array_is_named_as_possible_rows() -> None:
    (warning,) = [text for text in propose([logs(RECORD)]).warnings if "rows_from=" in text]
    paths = '"resourceLogs", or ("resourceLogs[]", "scopeLogs"), or ("resourceLogs[]", "scopeLogs[]", "logRecords")'
    assert f"write rows_from={paths}, declare" in warning


def test_the_line_that_is_named_for_attributes_reads_them_and_other_pairs_have_none() -> None:
    content = {"id": 1, "labels": RESOURCE["attributes"], "tags": [{"key": "a", "value": "b"}], "none": [{"key": "a"}]}
    proposal = propose([json.dumps(content).encode()])
    (warning,) = [text for text in proposal.warnings if "attributes" in text]
    line = 'Column("labels", "MAP<STRING, STRING>", doc="", required=True, written="otlp")'
    assert warning == f"labels has attributes. To store a map, write {line}."
    table = StreamTable("t", "t", "", [eval(line, {"Column": Column})], [])  # noqa: S307 - the line that a user copies
    assert table.decode(json.dumps(content).encode())["labels"] == [("service.name", "shop")]


def test_records_that_are_arrays_have_their_elements_as_rows() -> None:
    proposal = propose([b'[{"id": 1, "n": 2}, {"id": 2, "n": 3}]', b"[]", b'[{"id": 3}, 7]', b"x"])
    assert [(column.name, column.required) for column in proposal.columns] == [("id", True), ("n", False)]
    assert (proposal.rows_from, proposal.key, proposal.records, proposal.unread) == ((), ("id",), 4, 1)


def test_an_array_of_objects_is_named_as_possible_rows() -> None:
    proposal = propose([b'{"id": 1, "orderItems": [{"sku": "a"}]}'])
    note = 'order_items is an array of objects. For a row per object, write rows_from="orderItems",'
    assert any(note in warning for warning in proposal.warnings)
