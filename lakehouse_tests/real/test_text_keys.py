"""Keys that are text: their bounds prune files, whatever they hold, and no row is met twice or missed."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, StreamTable
from lakehouse.topic import create_topic
from lakehouse_tests.helpers.streams import Stream

LONG = "ä" * 99
ODD = ["", "'", "\\", "a'b\"\\n\n`${x}", "\x00", LONG + "m", LONG + "z" * 200, "😀", "\U0010ffff", "\uffff"]


def named() -> StreamTable:
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
    made = Stream(spark, broker, named())
    create_topic(broker, made.table)
    return made


def sizes(stream: Stream) -> list[tuple[str, int]]:
    rows = DeltaTable(stream.uri).to_pyarrow_table(columns=["name", "size"]).to_pylist()
    return sorted((row["name"], row["size"]) for row in rows)


@pytest.mark.invariant(7, 10)
def test_every_text_finds_its_row_again_as_the_least_and_the_greatest_of_a_batch(stream):
    stream.send(*(thing(name, 0) for name in ODD))
    stream.merge()
    for size, name in enumerate(ODD, start=1):
        stream.send(thing(name, size))
        stream.merge()
    assert sizes(stream) == sorted((name, size) for size, name in enumerate(ODD, start=1))
    for pair in ([LONG + "m", "😀"], ["", LONG + "z" * 200]):
        stream.send(*(thing(name, 100) for name in pair))
        stream.merge()
    assert [size for name, size in sizes(stream) if name in (LONG + "m", "😀", "", LONG + "z" * 200)] == [100] * 4
    assert len(sizes(stream)) == len(ODD)
    stream.assert_accounted()


@pytest.mark.invariant(7)
def test_a_file_in_which_no_key_of_the_batch_can_be_is_not_read(stream):
    stream.send(thing("m 1", 1), thing("m 2", 1))
    stream.merge()
    later = set(DeltaTable(stream.uri).file_uris())
    stream.send(thing("a", 1))
    stream.merge()
    (file,) = set(DeltaTable(stream.uri).file_uris()) - later
    hidden = Path(file).rename(f"{file}.hidden")
    stream.send(thing("m 1", 2), thing("n", 1))
    stream.merge()
    hidden.rename(file)
    assert sizes(stream) == [("a", 1), ("m 1", 2), ("m 2", 1), ("n", 1)]
