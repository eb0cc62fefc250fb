"""Change streams: the table equals its database, whatever is sent again, replayed or read from a snapshot."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Debezium, StreamTable
from lakehouse.kafka import create_topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.change_records import UNAVAILABLE, change
from lakehouse_tests.helpers.tables.rows import rows_of

COLUMNS = [
    Column("id", "BIGINT", "Number.", required=True),
    Column("note", "STRING", "Note."),
    Column("large", "STRING", "Text that is stored outside of the row.", keep=True, null_erases=True),
]


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["by deltalake", "by Spark"])
def stream(request: pytest.FixtureRequest, spark: SparkSession, broker: Settings) -> Iterator[Stream]:
    name = f"t_{uuid4().hex[:12]}"
    table = StreamTable(name, name, "", COLUMNS, ["id"], format=Debezium(), partitions=1)
    create_topic(broker, table)
    with by_spark(request.param):
        yield Stream(spark, broker, table)


def row(number: int, note: str | None = "x", large: str | None = "y") -> dict[str, Any]:
    return {"id": number, "note": note, "large": large}


def merge(stream: Stream, *values: bytes | None) -> dict[str, int]:
    """Merge values in one batch; return its counts."""
    stream.send(*values)
    (outcome,) = stream.merge()
    stream.assert_accounted()
    deletes = {"deleted": outcome.entry.metrics.deleted, "without_row": outcome.entry.commit.deletes_without_row}
    return {name: count for name, count in (counts(outcome.entry) | deletes).items() if count}


def notes(stream: Stream) -> dict[int, str | None]:
    return {stored["id"]: stored["note"] for stored in rows_of(stream.settings, stream.table.name)}


@pytest.mark.invariant("15.1")
def test_what_is_sent_again_changes_nothing(stream: Stream) -> None:
    changes = (change("c", 1, row(1, "a")), change("u", 2, row(1, "b")), change("d", 3, row(1)), None)
    assert merge(stream, *changes) == {"read": 4, "duplicate": 3, "without_row": 1}
    assert merge(stream, change("c", 4, row(1, "c")), change("c", 5, row(2))) == {"read": 2, "inserted": 2}
    assert merge(stream, *changes) == {"read": 4, "duplicate": 3, "stale": 1}
    assert merge(stream, None) == {"read": 1, "duplicate": 1}
    assert notes(stream) == {1: "c", 2: "x"}
    assert merge(stream, change("d", 6, row(1)), None) == {"read": 2, "duplicate": 1, "deleted": 1}
    assert notes(stream) == {2: "x"}


@pytest.mark.invariant("15.2")
def test_a_change_after_a_snapshot_is_newer_even_if_its_position_is_smaller(stream: Stream) -> None:
    merge(stream, *(change("r", 100, row(number)) for number in (1, 2, 3)))
    assert merge(stream, change("u", 90, row(1, "late")), change("d", 91, row(2))) == {
        "read": 2,
        "updated": 1,
        "deleted": 1,
    }
    assert notes(stream) == {1: "late", 3: "x"}
    assert merge(stream, change("u", 92, row(1, "later")), change("u", 110, row(3, "new"))) == {"read": 2, "updated": 2}
    before = rows_of(stream.settings, stream.table.name)
    stream.replay()
    assert rows_of(stream.settings, stream.table.name) == before
    assert merge(stream, change("u", 105, row(3, "sent again"))) == {"read": 1, "stale": 1}


@pytest.mark.slow
@pytest.mark.invariant("15.2")
def test_a_second_snapshot_replaces_what_was_read_before_it(stream: Stream) -> None:
    merge(stream, change("r", 100, row(1)), change("u", 120, row(1, "a")), change("d", 130, row(2)))
    merge(stream, change("r", 200, row(1, "b")), change("r", 200, row(2, "back")))
    assert notes(stream) == {1: "b", 2: "back"}
    before = rows_of(stream.settings, stream.table.name)
    stream.replay()
    assert rows_of(stream.settings, stream.table.name) == before


@pytest.mark.invariant("15.3")
def test_an_unavailable_value_keeps_what_is_stored_and_a_null_does_not(stream: Stream) -> None:
    merge(stream, change("c", 1, row(1, large="stored")))
    assert merge(stream, change("u", 2, row(1, "a", UNAVAILABLE))) == {"read": 1, "updated": 1}
    assert [stored["large"] for stored in rows_of(stream.settings, stream.table.name)] == ["stored"]
    merge(stream, change("u", 3, row(1, "b", None)))
    assert [stored["large"] for stored in rows_of(stream.settings, stream.table.name)] == [None]


@pytest.mark.slow
@pytest.mark.invariant("15.3")
def test_no_value_from_before_a_delete_returns_with_an_unavailable_one(stream: Stream) -> None:
    merge(stream, change("c", 1, row(1, large="deleted")))
    merge(stream, change("d", 2, row(1)), change("c", 3, row(1, large=None)))
    merge(stream, change("u", 4, row(1, "a", UNAVAILABLE)))
    assert [(s["note"], s["large"]) for s in rows_of(stream.settings, stream.table.name)] == [("a", None)]
