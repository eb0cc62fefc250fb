"""Text keys: file statistics prune files for any text, and every row is matched exactly once."""

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import duckdb
import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, RecordKey, StreamTable
from lakehouse.derived import refresh
from lakehouse_tests.helpers.brokers.streams import Stream

LONG_KEY = "ä" * 99
ODD_KEYS = [
    "",
    "'",
    "\\",
    "a'b\"\\n\n`${x}",
    "\x00",
    LONG_KEY + "m",
    LONG_KEY + "z" * 200,
    "😀",
    "\U0010ffff",
    "\uffff",
]


def named_things() -> StreamTable:
    """Rows keyed by a name."""
    name = f"named_{uuid4().hex[:8]}"
    columns = [
        Column("name", "STRING", required=True, doc="What it is called."),
        Column("size", "BIGINT", doc="How large it is."),
    ]
    return StreamTable(name, name, "Things by name.", columns, key=["name"])


def thing(name: str, size: int) -> bytes:
    return json.dumps({"name": name, "size": size}).encode()


@pytest.fixture
def stream(spark, broker):
    return Stream.of(spark, broker, named_things())


def sizes(stream: Stream) -> list[tuple[str, int]]:
    rows = DeltaTable(stream.uri).to_pyarrow_table(columns=["name", "size"]).to_pylist()
    return sorted((row["name"], row["size"]) for row in rows)


@pytest.mark.invariant("13.4")
@pytest.mark.slow
def test_every_text_key_matches_its_row_as_the_minimum_and_maximum_of_a_batch(stream):
    stream.send_and_merge(*(thing(name, 0) for name in ODD_KEYS))
    for size, name in enumerate(ODD_KEYS, start=1):
        stream.send_and_merge(thing(name, size))
    assert sizes(stream) == sorted((name, size) for size, name in enumerate(ODD_KEYS, start=1))
    for pair in ([LONG_KEY + "m", "😀"], ["", LONG_KEY + "z" * 200]):
        stream.send_and_merge(*(thing(name, 100) for name in pair))
    assert [size for name, size in sizes(stream) if name in (LONG_KEY + "m", "😀", "", LONG_KEY + "z" * 200)] == [
        100
    ] * 4
    assert len(sizes(stream)) == len(ODD_KEYS)
    stream.assert_accounted()


@pytest.mark.invariant("13.4")
def test_a_file_that_cannot_have_a_key_of_the_batch_is_not_read(stream):
    stream.send_and_merge(thing("m 1", 1), thing("m 2", 1))
    first_files = set(DeltaTable(stream.uri).file_uris())
    stream.send_and_merge(thing("a", 1))
    (file,) = set(DeltaTable(stream.uri).file_uris()) - first_files
    hidden_file = Path(file).rename(f"{file}.hidden")
    stream.send_and_merge(thing("m 1", 2), thing("n", 1))
    hidden_file.rename(file)
    assert sizes(stream) == [("a", 1), ("m 1", 2), ("m 2", 1), ("n", 1)]


BINARY = (7).to_bytes(8, "big")
SELECT_CONDITION = r"regexp_matches(name, '\p{Cc}')"  # as a reader finds binary keys
DELETE_CONDITION = r"regexp_like(name, '\p{Cc}')"


@pytest.mark.slow
def test_rows_with_binary_keys_can_be_deleted_and_a_replay_rejects_their_records(spark, broker):
    def with_key_source(table: StreamTable, source: RecordKey) -> StreamTable:
        return replace(table, columns=[replace(table.record_columns[0], source=source), table.record_columns[1]])

    stream = Stream.of(spark, broker, with_key_source(named_things(), RecordKey("any_text")))
    stream.send(b'{"size":1}', key=BINARY)
    stream.send_and_merge(b'{"size":2}', key=b"plain")
    refresh.refresh_changes(stream.context)
    stream = replace(stream, table=with_key_source(stream.table, RecordKey()))
    stream.send_and_merge(b'{"size":3}', key=BINARY)
    rows = DeltaTable(stream.uri).to_pyarrow_table()
    binary_names = duckdb.connect().execute(f"SELECT name FROM rows WHERE {SELECT_CONDITION}").fetchall()
    assert (rows.num_rows, binary_names) == (2, [(BINARY.decode(),)])
    assert DeltaTable(stream.uri).delete(DELETE_CONDITION)["num_deleted_rows"] == 1
    stream.replay()
    assert sizes(stream) == [("plain", 2)]
    assert [reason for *_, reason in rejected(stream)] == ["invalid_text"] * 2
    refresh.refresh_changes(stream.context)
    changes = DeltaTable(broker.table_uri(stream.table.changes_name)).to_pyarrow_table().to_pylist()
    changes.sort(key=lambda row: row["source_version"])
    assert [row["change"] for row in changes if row["name"] == BINARY.decode()] == ["insert", "delete"]
    stream.assert_accounted()


def rejected(stream: Stream) -> list[tuple[int, int, str]]:
    rows = DeltaTable(stream.settings.table_uri(stream.table.rejected_name)).to_pyarrow_table().to_pylist()
    return sorted((row["position"]["partition"], row["position"]["position"], row["reason"]) for row in rows)


def test_keys_of_eight_bytes_are_numbers(spark, broker):
    columns = [
        Column("id", "BIGINT", "Which.", source=RecordKey("big_endian"), required=True),
        Column("size", "BIGINT", "How large it is."),
    ]
    stream = Stream.of(spark, broker, replace(named_things(), columns=columns, key=["id"]))
    for number, size in ((7, 1), (2**40, 2), (-1, 3), (7, 4)):
        stream.send(json.dumps({"size": size}).encode(), key=number.to_bytes(8, "big", signed=True))
    stream.send_and_merge(b"{}", key=b"7")
    rows = DeltaTable(stream.uri).to_pyarrow_table(columns=["id", "size"]).to_pylist()
    assert sorted((row["id"], row["size"]) for row in rows) == [(-1, 3), (7, 4), (2**40, 2)]
    assert [reason for *_, reason in rejected(stream)] == ["wrong_type"]
