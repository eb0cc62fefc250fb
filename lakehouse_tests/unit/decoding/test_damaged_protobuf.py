"""Damaged Protobuf is rejected with a reason, and takes a bounded memory; what parsers must accept is read."""

import resource
import time
from typing import Any

import pytest

from lakehouse.declaration import Protobuf
from lakehouse.decoding import memory
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.protobuf.nodes import UNKNOWN_VALUE
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse_tests.helpers.decoding.protobuf_orders import (
    FIRST,
    MAX_VARINT,
    ORDER,
    RECORD,
    SCHEMAS,
    proto,
    read,
    read_or_reason,
    rejection_reason,
    sized,
    varint,
    varint_field,
)


@pytest.mark.invariant("8.10")
def test_a_record_that_ends_within_a_field_is_truncated() -> None:
    body = RECORD[6:]
    results = [read_or_reason(ORDER, body[:end]) for end in range(len(body))]
    assert {result for result in results if isinstance(result, str)} == {"truncated"}
    assert sum(isinstance(result, dict) for result in results) == 10, "a cut after a field leaves a shorter message"


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        (b"\x02\x04", "invalid_protobuf"),  # the third message of two
        (b"\x01", "invalid_protobuf"),  # a negative count, as serializers without zigzag write it
        (b"\x02\x01", "invalid_protobuf"),
        (b"\xfe\xff\x03", "invalid_protobuf"),
        (b"\x02", "truncated"),
        (b"\x04\x00\x04", "invalid_protobuf"),
    ],
)
def test_indexes_that_name_no_message_are_rejected(indexes: bytes, expected: str) -> None:
    assert rejection_reason(ORDER, b"", indexes) == expected


def test_indexes_that_serializers_count_differently_are_rejected() -> None:
    fields = ("map<string, A> as = 1;", "message B {}", "map<string, A> bs = 2;", "message C { int32 c = 1; }")
    text = proto("message A { int32 a = 1; }", *fields)
    assert read(text, b"", b"\x04\x00\x00") == {"a": 0}
    assert read(text, b"", b"\x04\x00\x08") == {"c": 0}, "the fifth with the entries, and none without them"
    assert rejection_reason(text, b"", b"\x04\x00\x06") == "invalid_protobuf", "only an entry"
    assert rejection_reason(text, b"", b"\x04\x00\x04") == "unusable_schema", "B if the entry counts, else C"


@pytest.mark.invariant("8.10", "13.3")
@pytest.mark.parametrize(
    ("fields", "body", "expected"),
    [
        (["int64 a = 1;"], b"\x08" + b"\xff" * 10, "invalid_protobuf"),
        (["int64 a = 1;"], b"\x08" + b"\x80" * 10 + b"\x00", "invalid_protobuf"),
        (["string a = 1;"], b"\x8a\x80\x80\x80\x80\x00\x00", "invalid_protobuf"),
        (["string a = 1;"], b"\x0a\x02\xff\xfe", "invalid_utf8"),
        (["map<string, string> a = 1;"], sized(0x0A, b"\x0a\x02\xff\xfe"), "invalid_utf8"),
        (["string a = 1;"], b"\x0a" + MAX_VARINT, "invalid_protobuf"),
        (["string a = 1;"], b"\x0a\x05a", "truncated"),
        (["bytes a = 1;"], b"\x0a\x7f", "truncated"),
        (["string a = 1;"], b"\x08\x01", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x0d\x01\x00\x00\x00", "invalid_protobuf"),
        (["M b = 2; int32 a = 1;"], sized(0x12, b"\x0d\x01\x00\x00\x00"), "invalid_protobuf"),
        (["google.protobuf.Timestamp a = 1;"], sized(0x0A, b"\x0d\x01\x00\x00\x00"), "invalid_protobuf"),
        (["map<int32, int32> a = 1;"], sized(0x0A, b"\x0a\x01k"), "invalid_protobuf"),
        (["int32 a = 1;"], b"\x0b", "truncated"),
        (["int32 a = 1;"], b"\x13\x1c", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x14", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x16", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x00\x01", "invalid_protobuf"),
        (["int32 a = 1;"], b"\x80\x80\x80\x80\x10\x00", "invalid_protobuf"),
        (["map<string, int32> a = 1;"], sized(0x0A, b"\x18\x01"), "invalid_protobuf"),
        (["repeated int32 a = 1;"], b"\x0a\x02\x01\x80\x01", "truncated"),
        (["repeated fixed32 a = 1;"], b"\x0a\x03abcd", "truncated"),
        (["M a = 1;"], b"\x0a\x01\x0a\x00", "truncated"),
    ],
)
def test_bytes_that_no_writer_writes_are_rejected(fields: list[str], body: bytes, expected: str) -> None:
    assert rejection_reason(proto(*fields), body) == expected


@pytest.mark.parametrize("body", [b"\x0a\x02\xff\xfe", sized(0x12, b"\x0a\x02\xff\xfe\x10\x01"), sized(0x1A, b"\xff")])
def test_texts_of_proto2_are_utf_8_too(body: bytes) -> None:
    fields = ("optional string a = 1;", "map<string, int32> b = 2;", "repeated string c = 3;")
    assert rejection_reason(proto(*fields, syntax="proto2"), body) == "invalid_utf8"


@pytest.mark.parametrize(
    ("fields", "body", "expected"),
    [
        (["int32 a = 1;"], b"\x08\x01\x08\x02", {"a": 2}),
        (["oneof o { int32 a = 1; int32 b = 2; }"], b"\x08\x01\x10\x02", {"b": 2}),
        (["map<string, int32> a = 1;"], sized(0x0A, b"\x0a\x01k\x10\x01", b"\x0a\x01k\x10\x02"), {"a": {"k": 2}}),
        (["map<int32, M> a = 1;"], sized(0x0A, b"\x10\x02" + b"\x08\x05"), "invalid_protobuf"),
        (["map<int32, M> a = 1;"], sized(0x0A, b"\x08\x05"), {"a": {"5": {"a": {}}}}),
        (["google.protobuf.Value a = 1;"], b"\x0a\x00", {"a": None}),
        (["int32 a = 1;"], b"\x13\x08\x01\x14", {"a": 0, "#2": UNKNOWN_VALUE}),
        (["int32 a = 1;"], b"\x08\x83\x80\x80\x80\x10", {"a": 3}),
        (["int32 a = 1;"], b"\x08\xff\xff\xff\xff\x0f", {"a": -1}),
        (["uint32 a = 1;"], b"\x08" + MAX_VARINT, {"a": 2**32 - 1}),
        (["bool a = 1;"], b"\x08\x07", {"a": True}),
        (["uint64 a = 1;"], b"\x08" + b"\xff" * 9 + b"\x7f", {"a": 2**64 - 1}),
    ],
)
def test_what_the_specification_wants_parsers_to_accept_is_read(
    fields: list[str], body: bytes, expected: dict[str, Any] | str
) -> None:
    """The last of two values counts, messages are merged, and numbers lose the bits that do not fit."""
    assert read_or_reason(proto(*fields), body) == expected


def test_a_fault_in_a_value_that_a_later_one_replaces_rejects_no_record() -> None:
    wrong_wire_type = sized(0x0A, b"\x15\x01\x00\x00\x00") + b"\x18\x07"
    assert read(proto("oneof o { M a = 1; int32 c = 3; }", "int32 b = 2;"), wrong_wire_type) == {"b": 0, "c": 7}
    texts = sized(0x0A, b"\xff", b"x")
    assert read(proto("optional string a = 1;", syntax="proto2"), texts) == {"a": "x"}
    assert rejection_reason(proto("string a = 1;"), texts) == "invalid_utf8", "the library checks each text of proto3"


def test_a_message_that_is_written_twice_is_merged() -> None:
    text = proto("M a = 1;", "int32 b = 2;", "repeated int32 c = 3;", "M d = 4;")
    inner = {"b": 7, "c": [5, 6], "d": {"b": 1, "c": []}}
    assert read(text, sized(0x0A, b"\x10\x01\x18\x05\x22\x02\x10\x01", b"\x10\x07\x18\x06"))["a"] == inner


def test_the_entries_of_a_map_keep_their_order() -> None:
    keys = [f"k{n}".encode() for n in (9, 3, 7, 1, 8, 2)]
    body = sized(0x0A, *(b"\x0a\x02" + key for key in keys))
    assert [*read(proto("map<string, int32> a = 1;"), body)["a"]] == [key.decode() for key in keys]


def test_numbers_with_zero_bits_at_their_end_are_read() -> None:
    assert read(proto("int64 a = 1;", "string b = 2;"), b"\x88\x00\x85\x80\x00\x12\x81\x00x") == {"a": 5, "b": "x"}


@pytest.mark.invariant("8.10")
def test_messages_of_too_many_levels_are_rejected() -> None:
    text = proto("M a = 1;")
    body = b""
    for _ in range(60):
        body = sized(0x0A, body)
    assert read(text, body)
    levels = [b""]
    for _ in range(101):
        inner = levels[-1]
        levels.append(varint_field(0x0A, len(inner)) + inner)
    assert read(text, levels[100])
    assert rejection_reason(text, levels[101]) == "invalid_protobuf"


@pytest.mark.invariant("8.11")
@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (["repeated bool a = 1;"], varint_field(0x0A, 10**6) + b"\x01" * 10**6),
        (["repeated M a = 1;"], sized(0x0A, *[b""] * 100_000)),
        (["repeated string a = 1;"], sized(0x0A, *[b""] * 200_000)),
        (["map<int32, string> a = 1;"], sized(0x0A, *(varint_field(0x08, n) for n in range(70_000)))),
        (["string b = 1;"], b"".join(varint(n << 3) + b"\x00" for n in range(2, 60_000))),
        (
            ["repeated M a = 1;", *(f"int32 f{n} = {n};" for n in range(2, 400))],
            sized(0x0A, *[b""] * 1_000),
        ),
    ],
)
def test_a_small_record_that_would_take_too_much_memory_is_rejected(
    monkeypatch: pytest.MonkeyPatch, fields: list[str], body: bytes
) -> None:
    """With a fortieth of the memory limit, and so in a fortieth of the time."""
    monkeypatch.setattr(memory, "MAX_RECORD_MEMORY", MAX_RECORD_MEMORY // 40)
    assert rejection_reason(proto(*fields), body) == "too_large"


@pytest.mark.invariant("8.11")
@pytest.mark.parametrize(
    "body",
    [
        sized(0x0A, *[b""] * 400_000),
        b"\x8a\x80\x00\x00" * 400_000,
        varint_field(0x0A, 800_000) + sized(0x0A, *[b""] * 400_000),
        b"\x13" + b"\x1b\x1c" * 3_000_000 + b"\x14",
    ],
    ids=["items", "padded items", "inner items", "unknown group"],
)
def test_the_library_never_makes_more_than_the_limit_of_memory(body: bytes) -> None:
    """A message of 300 fields has kilobytes in the library, so that a record of a megabyte could become gigabytes."""
    fields = ["repeated M a = 1;", *(f"int64 f{n} = {n};" for n in range(4, 300))]
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert rejection_reason(proto(*fields), body) == "too_large"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - usage < 400_000, "kilobytes"


def test_a_large_text_of_bytes_that_could_be_tags_is_read() -> None:
    fields = ["string b = 2;", "M a = 1;", *(f"int64 f{n} = {n};" for n in range(4, 300))]
    text = b"\x0a" * 900_000
    assert read(proto(*fields), b"\x12" + varint(len(text)) + text)["b"] == text.decode()


@pytest.mark.invariant("8.11")
def test_many_small_items_are_read_in_seconds() -> None:
    body = sized(0x0A, *[b""] * 500_000)
    start_time = time.process_time()
    assert len(read(proto("repeated M a = 1;"), body)["a"]) == 500_000
    assert time.process_time() - start_time < 8


def test_the_memory_of_a_record_is_counted_while_it_is_parsed() -> None:
    parser = Protobuf().parser(SCHEMAS)
    parser(RECORD)
    large_memory = parser.memory_of(RECORD)
    parser(add_frame(7, FIRST))
    assert large_memory > parser.memory_of(b"") > 0
