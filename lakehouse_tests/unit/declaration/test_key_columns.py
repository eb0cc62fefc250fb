"""Columns proposed for the keys of records, by their form, and the lines for keys that values contain."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Csv, Rejection, StreamTable
from lakehouse.declaration.inference.key_columns import with_record_key
from lakehouse.declaration.inference.proposal import Proposal, propose
from lakehouse.declaration.inference.proposed_changes import KeyedValue
from lakehouse.decoding.formats.framing import add_frame

MILLISECONDS = struct.pack(">q", 1_530_008_520_000)
TEXT_KEY, BINARY_KEY = (("record_key", type_, "RecordKey()") for type_ in ("STRING", "BINARY"))


def proposal_for(*records: tuple[bytes | None, Any]) -> Proposal:
    """The proposal for records: their keys, and their values as objects."""
    keyed_values = [KeyedValue(key, json.dumps(value).encode() if value else None) for key, value in records]
    return with_record_key(propose([record.value for record in keyed_values]), keyed_values)


def key_lines(proposal: Proposal) -> list[tuple[str, str, str]]:
    """The name, the type and the source of each column for the key."""
    return [(c.name, c.type, repr(c.source)) for c in proposal.columns if "RecordKey" in repr(c.source)]


@pytest.mark.parametrize(
    ("keys", "lines", "form"),
    [
        ([b"sensors/a/temp", "sensors/é".encode()], [TEXT_KEY], "text, such as 'sensors/a"),
        ([b"7", b"8"], [TEXT_KEY], "text, such as '7'"),
        (
            [(n).to_bytes(8, "big") for n in (7, 2**40)],
            [("record_key", "BIGINT", "RecordKey('big_endian')")],
            "a whole number of 8 bytes",
        ),
        (
            [struct.pack(">i", n) for n in (7, -9)],
            [("record_key", "INT", "RecordKey('big_endian')")],
            "a whole number of 4 bytes",
        ),
        ([b'"a"', b'"b"'], [("record_key", "STRING", "RecordKey('json')")], "JSON"),
        (
            [b'{"id": 1, "home": {"at": "2026-01-01"}}', b'{"id": 2, "home": {"at": "2026-01-02"}}'],
            [("key_id", "BIGINT", "RecordKey('json', 'id')"), ("home_at", "DATE", "RecordKey('json', ('home', 'at'))")],
            "JSON",
        ),
        (
            [add_frame(3, b'{"no": 1}'), add_frame(3, b'{"no": 2}')],
            [("no", "BIGINT", "RecordKey('framed_json', 'no')")],
            "JSON with the id of a schema in front",
        ),
        (
            [b'{"schema": {"type": "int32"}, "payload": 7}', b'{"schema": {"type": "int32"}, "payload": 8}'],
            [("payload", "BIGINT", "RecordKey('json', 'payload')")],
            "JSON",
        ),
        ([bytes(range(1, 17))], [BINARY_KEY], "bytes, neither text nor a whole number"),
        ([b"lead" + MILLISECONDS], [BINARY_KEY], "bytes that end with a"),
        (
            [struct.pack(">i", number) + MILLISECONDS for number in range(20)] + [b"\xff"],
            [BINARY_KEY],
            "bytes: 20 of 21 are bytes that end with a",
        ),
    ],
    ids=[
        *("topics", "digits", "8 bytes", "4 bytes", "JSON text", "JSON", "framed JSON", "Connect", "bytes", "windows"),
        "windows of small numbers",
    ],
)
def test_a_key_has_the_columns_that_read_its_form(
    keys: list[bytes], lines: list[tuple[str, str, str]], form: str
) -> None:
    proposal = proposal_for(*((key, {"id": f"x{n}"}) for n, key in enumerate(keys)))
    assert key_lines(proposal) == lines
    assert any(f"Every key is {form}" in warning for warning in proposal.warnings), proposal.warnings
    table = StreamTable("t", "t", "", proposal.columns, ["id"])
    rows = [table.decode(b'{"id": "x"}', key=key) for key in keys]
    assert all(row[name] is not None for row in rows for name, _, _ in lines)


def test_a_key_that_is_a_field_of_the_value_is_a_line_in_a_comment() -> None:
    proposal = proposal_for(*((str(n).encode(), {"order_id": n, "v": 1}) for n in (1, 2)), (b"3", None), (None, None))
    assert key_lines(proposal) == []
    assert any(
        text == "Every key is text, such as '1', equal to order_id. To read the key itself, write"
        ' Column("record_key", "STRING", doc="", source=RecordKey()).'
        for text in proposal.warnings
    )
    assert any(text.startswith("Records with a key and without a value: 1 of 4.") for text in proposal.warnings)
    csv_records = [KeyedValue(str(n).encode(), b"%d,x" % n) for n in (7, 8)]
    csv_proposal = propose([record.value for record in csv_records], Csv(columns=["no", "word"]))
    assert key_lines(with_record_key(csv_proposal, csv_records)) == []
    partly_equal = proposal_for(*((f'{{"id": {n}, "shard": {n % 2}}}'.encode(), {"id": n}) for n in range(3)))
    assert key_lines(partly_equal) == [("shard", "BIGINT", "RecordKey('json', 'shard')")]
    twice_equal = proposal_for(*((f'{{"a": {n}, "b": {n + 5}}}'.encode(), {"a": n, "b": n + 5}) for n in range(3)))
    (text,) = [text for text in twice_equal.warnings if text.startswith("Every key")]
    assert "equal to a, b." in text and text.count("Column(") == 2


def test_keys_that_may_be_numbers_or_have_a_schema_get_the_line_for_each() -> None:
    proposal = proposal_for((add_frame(9, b"\x80\x80\x02"), {"id": 1}), (add_frame(9, b"\x82\x80\x02"), {"id": 2}))
    assert key_lines(proposal) == []
    (text,) = [text for text in proposal.warnings if "the id of a schema, such as 9" in text]
    assert 'source=RecordKey("avro")' in text and '"BIGINT", doc="", source=RecordKey("big_endian")' in text


def test_records_without_keys_get_no_line() -> None:
    for key in (None, b""):
        proposal = proposal_for((key, {"id": 1}), (key, {"id": 2}))
        assert proposal == propose([b'{"id": 1}', b'{"id": 2}'])


def test_empty_keys_are_counted_if_the_column_rejects_their_records() -> None:
    for key in (b'{"part": 3}', b'"a"', b"\x00\x00\x00\x00\x00\x00\x00\x07"):
        proposal = proposal_for((key, {"id": 1}), (b"", {"id": 2}), (None, {"id": 3}))
        table = StreamTable("t", "t", "", proposal.columns, proposal.key)
        with pytest.raises(Rejection):
            table.decode(b'{"id": 2}', key=b"")
        (name,) = [name for name, _, _ in key_lines(proposal)]
        assert f"1 of 3 keys are empty, which {name} cannot be: their records are rejected." in proposal.warnings
    assert not any("empty" in text for text in proposal_for((b"a", {"id": 1}), (b"", {"id": 2})).warnings)


@given(st.lists(st.tuples(st.none() | st.binary(max_size=12), st.none() | st.just({"id": 1})), max_size=5))
def test_the_columns_for_any_keys_read_them(records: list[tuple[bytes | None, Any]]) -> None:
    proposal = proposal_for(*records)
    if proposal.columns:
        table = StreamTable("t", "t", "", proposal.columns, proposal.key)
        for key, value in records:
            if value:
                table.decode(json.dumps(value).encode(), key=key or None)
