"""The lines of ``publish --raw``: what each becomes, and which are refused with their number."""

import json
from typing import Any

import pytest

from lakehouse.kafka.raw_records import RawRecord, UnreadableLineError, read_raw_records


def read_line(line: dict[str, Any] | bytes) -> RawRecord:
    (record,) = read_raw_records([line if isinstance(line, bytes) else json.dumps(line).encode()], range(3))
    return record


def test_a_line_has_every_part_of_a_record() -> None:
    line = {"key": "k", "value": "é", "headers": {"a": "1"}, "headers_base64": {"b": "/w=="}, "partition": 2}
    record = RawRecord("é".encode(), b"k", (("a", b"1"), ("b", b"\xff")), 2, 1_000)
    assert read_line(line | {"timestamp": 1_000}) == record


def test_a_record_needs_only_a_value_and_null_is_none() -> None:
    assert read_line({"value": ""}) == RawRecord(b"")
    assert read_line({"value": None, "key": ""}) == RawRecord(None, b"")
    assert read_line({"value": "", "key": None}) == RawRecord(b"")
    assert read_line({"value_base64": "/wA=", "key_base64": ""}) == RawRecord(b"\xff\x00", b"")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "the value is empty"),
        (b'{"value": "a"', "Expecting ',' delimiter"),
        (b'{"value": "a", "value": "b"}', "'value' occurs more than once"),
        (b'{"value": "\xff"}', "is not UTF-8"),
        (b"[]", "expected an object, not an array"),
        ({}, "value and value_base64 are missing"),
        ({"value": "a", "value_base64": "YQ=="}, "value and value_base64 are both given"),
        ({"value": None}, "neither value nor key has bytes"),
        ({"value_base64": None, "key": None}, "neither value nor key has bytes"),
        ({"value": {"id": 1}}, "value must be text, not an object; write JSON as text"),
        ({"value": "a", "offset": 1}, "unknown member 'offset'; the members are key, key_base64"),
        ({"value": "\ud800"}, "value has half of a surrogate pair"),
        ({"value": "a", "headers": {"\ud800": "a"}}, "a name in headers has half of a surrogate pair"),
        ({"value_base64": "a"}, "value_base64 is not valid base64"),
        ({"value": "a", "headers": ["a"]}, "headers must be an object, not an array"),
        ({"value": "a", "headers": ""}, "headers must be an object, not text"),
        ({"value": "a", "headers_base64": []}, "headers_base64 must be an object, not an array"),
        ({"value": "a", "headers": {"a": None}}, "headers must be text, not null"),
        ({"value": "a", "partition": 3}, "partition must be one of the 3 partitions of the topic"),
        ({"value": "a", "partition": True}, "partition must be a whole number"),
        ({"value": "a", "timestamp": -1}, "timestamp must be a whole number"),
        ({"value": "a", "timestamp": 1.5}, "timestamp must be a whole number"),
        ({"value": "a", "timestamp": 2**63}, "timestamp must be a whole number"),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_its_number(line: Any, reason: str) -> None:
    second_line = line if isinstance(line, bytes) else json.dumps(line).encode()
    records = read_raw_records([b'{"value": "a"}', second_line], range(3))
    assert next(records) == RawRecord(b"a")
    with pytest.raises(UnreadableLineError, match="Line 2 is not a record: ") as error:
        next(records)
    assert reason in str(error.value)
