"""A version of several columns: each decides if those before it are equal, in rows, kept values and deletes."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Computed, Deletes, FieldIs, StreamTable, Topic, Version
from lakehouse.declaration.vocabulary import VersionNulls
from lakehouse.errors import TableError
from lakehouse.kafka import create_topic
from lakehouse.operations.rebuild_tables import Places, build_copies, switch
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.writers import by_writer
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.tables.rows import rows_of

STATES = ("created", "paid", "refunded", "unknown")
RANK = "CASE state WHEN 'created' THEN 1 WHEN 'paid' THEN 2 WHEN 'refunded' THEN 3 END"
COLUMNS = (
    Column("id", "BIGINT", required=True, doc="Number of the charge."),
    Column("at", "BIGINT", required=True, doc="Second of the event."),
    Column("state", "STRING", required=True, doc="State after it."),
    Column("note", "STRING", keep=True, doc="The newest note."),
    Computed("rank", "INT", RANK, "Place of the state among those of a second."),
)


class Event(NamedTuple):
    """A record about a charge; its order is that of its version, without ties."""

    id: int
    at: int
    state: str
    note: str | None = None
    op: str = "write"

    def order(self, nulls: VersionNulls) -> tuple[int, float]:
        missing = float("inf") if nulls == "newest" else 0
        return self.at, missing if self.state == "unknown" else STATES.index(self.state) + 1


def table_of(nulls: VersionNulls, rank: str = RANK, name: str = "") -> StreamTable:
    name = name or f"t_{uuid4().hex[:12]}"
    return StreamTable(
        name,
        source=Topic(name, partitions=2),
        doc="Charges.",
        columns=[*COLUMNS[:-1], Computed("rank", "INT", rank, "Place of the state.")],
        key=["id"],
        version=Version(["at", "rank", "id"], nulls=nulls),  # a column of the key decides nothing
        deletes=Deletes(when=FieldIs("op", ["delete"]), truncates=FieldIs("op", ["truncate"])),
    )


def drawn_events(rng: random.Random) -> list[Event]:
    """Events of four keys, each with another version; the last ones delete."""
    versions = [(key, at, state) for key in range(4) for at in (1, 2, 3) for state in STATES]
    events = [Event(*version, note=rng.choice([None, "a", "b"])) for version in rng.sample(versions, 30)]
    deletes = [event._replace(op="delete", note=None) for event in events[:6]]
    return [event for event in events if event not in events[:6]] + deletes


def expected_rows(events: Sequence[Event], nulls: VersionNulls) -> dict[int, tuple[int, str, str | None]]:
    """The rows that a table has after events, in any order."""
    truncated = max((event.order(nulls) for event in events if event.op == "truncate"), default=(0, 0.0))
    rows = {}
    for key in {event.id for event in events}:
        deletes = [event.order(nulls) for event in events if event.id == key and event.op == "delete"]
        horizon = max([truncated, *deletes])
        later = [event for event in events if event.id == key and event.op == "write" and event.order(nulls) > horizon]
        events_of_key = sorted(later, key=lambda event: event.order(nulls))
        notes = [event.note for event in events_of_key if event.note is not None]
        if events_of_key:
            rows[key] = events_of_key[-1].at, events_of_key[-1].state, notes[-1] if notes else None
    return rows


@pytest.fixture(params=["deltalake", "slots", pytest.param("Spark", marks=pytest.mark.slow)])
def writer(request: pytest.FixtureRequest) -> Iterator[None]:
    with by_writer(request.param):
        yield


def stored_rows(stream: Stream) -> dict[int, tuple[Any, ...]]:
    return {row["id"]: (row["at"], row["state"], row["note"]) for row in rows_of(stream.settings, stream.table.name)}


@pytest.mark.slow
@pytest.mark.invariant("4.1", "10.3")
@pytest.mark.parametrize("nulls", ["oldest", "newest"])
def test_events_of_a_second_in_any_order_end_in_the_same_table(
    spark: SparkSession, broker: Settings, nulls: VersionNulls, writer: None
) -> None:
    rng = random.Random(54)
    table = table_of(nulls)
    create_topic(broker, table)
    stream = Stream(spark, broker, table)
    events = drawn_events(rng)
    events.append(Event(0, 2, "created", op="truncate"))
    rng.shuffle(events)
    sent: list[Event] = []
    for begin in range(0, len(events), 8):
        for event in events[begin : begin + 8]:
            stream.send(json.dumps(event._asdict()).encode(), partition=rng.randrange(2))
        sent += events[begin : begin + 8]
        stream.merge()
        stream.assert_accounted()
        assert stored_rows(stream) == expected_rows(sent, nulls)
    rows = rows_of(broker, table.name)
    stream.replay()
    assert rows_of(broker, table.name) == rows


@pytest.mark.invariant("4.1")
def test_another_expression_of_a_version_is_refused_until_the_table_is_built_again(
    spark: SparkSession, broker: Settings
) -> None:
    table = table_of("oldest")
    create_topic(broker, table)
    stream = Stream(spark, broker, table)
    stream.send_and_merge(b'{"id": 1, "at": 1, "state": "paid"}')
    other_table = table_of("oldest", RANK.replace("2", "4"), table.name)
    other_stream = Stream(spark, broker, other_table)
    with pytest.raises(TableError, match=f"lakehouse rebuild {table.name}") as error:
        other_stream.send_and_merge(b'{"id": 1, "at": 1, "state": "refunded"}')
    build_copies(other_stream.context)
    switch(broker, other_table, Places.of(broker, other_table))
    other_stream.merge()
    assert [(row["state"], row["rank"]) for row in rows_of(broker, table.name)] == [("paid", 4)]
    assert "rank (CASE state WHEN 'created' THEN 1 WHEN 'paid' THEN 4" in str(error.value)


@pytest.mark.slow
@pytest.mark.invariant("4.1")
def test_a_computed_version_is_refused_for_rows_that_were_stored_before_it(
    spark: SparkSession, broker: Settings
) -> None:
    table = table_of("oldest")
    create_topic(broker, table)
    first_table = replace(table, columns=COLUMNS[:3], version="at", deletes=Deletes())
    Stream(spark, broker, first_table).send_and_merge(b'{"id": 1, "at": 1, "state": "refunded"}')
    for version in ("at", Version(["at", "rank"], nulls="oldest")):
        later_table = replace(table, columns=[*COLUMNS[:3], COLUMNS[4]], version=version, deletes=Deletes())
        stream = Stream(spark, broker, later_table)
        if version == "at":
            stream.send_and_merge(b'{"id": 2, "at": 1, "state": "paid"}')
            continue
        with pytest.raises(TableError, match=f"lakehouse rebuild {table.name}"):
            stream.send_and_merge(b'{"id": 1, "at": 1, "state": "created"}')
    assert {row["id"]: row["state"] for row in rows_of(broker, table.name)} == {1: "refunded", 2: "paid"}
