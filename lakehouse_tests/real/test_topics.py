"""Several topics in one table: each has its own progress, gaps and rejected records; all have one order."""

import re
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, StreamTable, Topic, TopicName, TopicPattern, Topics
from lakehouse.errors import DataLossError, TopicError
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.topics import split_context
from lakehouse.kafka import create_topic, delete_topic
from lakehouse.ledger.audit import audit
from lakehouse.operations import repair
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream, counts, hour, record, send, unique_table
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of
from lakehouse_tests.helpers.tables.tables import redeclare

SHOP = Column("topic", "STRING", source=TopicName(), doc="Topic of the newest record.")


def create(spark: SparkSession, broker: Settings, *names: str, **changes: Any) -> Stream:
    """Return a table that reads all topics whose name begins with its own, and creates some."""
    table = unique_table(base=None)
    source = TopicPattern(f"{table.name}-.*", partitions=1)
    table = redeclare(table, source=source, columns=[*table.columns, SHOP], **changes)
    for name in names:
        create_topic(broker, table.in_topic(f"{table.name}-{name}"))
    return Stream(spark, broker, table)


def send_to(stream: Stream, name: str, *values: bytes) -> None:
    send(stream.settings, f"{stream.table.name}-{name}", values)


def rows(stream: Stream) -> dict[str, tuple[float, str]]:
    """Return the temperature of every hour, and the end of the name of its topic."""
    stored_rows = rows_of(stream.settings, stream.table.name)
    return {hour_of(row): (row["temperature_2m"], row["topic"].rpartition("-")[2]) for row in stored_rows}


def accept_gaps(stream: Stream) -> None:
    for part in split_context(stream.context):
        gap = repair.propose_gap(stream.settings, part.table)
        if gap:
            repair.record(part, gap)


@pytest.mark.invariant("2.2")
def test_a_topic_that_was_renamed_is_read_next_to_the_former_one(spark: SparkSession, broker: Settings) -> None:
    stream = Stream.create(spark, broker, base=None)
    former = stream.table.topic
    stream.send_and_merge(record(time=hour(0)))
    stream.send(record(time=hour(1)))
    stream.table = redeclare(stream.table, topic=f"{former}-new")
    create_topic(broker, stream.table)
    stream.send(record(time=hour(2)))
    advice = f"source=Topics(['{former}', '{former}-new'])"
    with pytest.raises(
        DataLossError, match=re.escape(f"If {former} got a new name and still exists, read both: {advice}")
    ):
        stream.merge()
    stream.table = redeclare(stream.table, source=Topics([former, f"{former}-new"]))
    assert [outcome.entry.commit.read for outcome in stream.merge() if outcome.plan] == [1, 1]
    assert stream.temperatures().keys() == {hour(0), hour(1), hour(2)}
    assert not stream.merge()


@pytest.mark.invariant("2.2", "2.8", "7.1", "3.1")
def test_topics_are_merged_into_one_table_and_a_later_one_from_its_beginning(
    spark: SparkSession, broker: Settings
) -> None:
    stream = create(spark, broker, "eu", "us")
    send_to(stream, "eu", record(time=hour(0), temperature_2m=1.0), record(time=hour(1), temperature_2m=2.0))
    send_to(stream, "us", record(time=hour(1), temperature_2m=3.0), b'{"time": 7}')
    outcomes = stream.merge()
    assert [outcome.entry.commit.kind for outcome in outcomes] == ["start", "batch", "start", "batch"]
    assert rows(stream) == {hour(0): (1.0, "eu"), hour(1): (3.0, "us")}
    assert stream.merge() == []
    create_topic(broker, stream.table.in_topic(f"{stream.table.name}-asia"))
    send_to(stream, "asia", record(time=hour(2), temperature_2m=4.0))
    send_to(stream, "eu", record(time=hour(0), temperature_2m=5.0))
    assert [outcome.entry.commit.stream.rpartition("-")[2] for outcome in stream.merge()] == ["asia", "asia", "eu"]
    assert rows(stream) == {hour(0): (5.0, "eu"), hour(1): (3.0, "us"), hour(2): (4.0, "asia")}
    state = status(broker, stream.table)
    assert {name.rpartition("-")[2]: lag for name, lag in state.lags.items()} == {"asia": 0, "eu": 0, "us": 0}
    assert (state.lag, state.loss, state.problem, state.rejected.open) == (0, None, None, 1)
    before = stream.snapshot()
    replayed = stream.replay()
    assert {(outcome.entry.metrics.inserted, outcome.entry.metrics.updated) for outcome in replayed} == {(0, 0)}
    assert stream.snapshot() == before
    stream.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("4.8", "3.3")
def test_the_topic_decides_between_records_of_the_same_time(spark: SparkSession, broker: Settings) -> None:
    stream = create(spark, broker)
    names = [f"{stream.table.name}-{name}" for name in ("a", "b")]
    for name in names:
        create_topic(broker, stream.table.in_topic(name))
    for name, value in zip(names, (1.0, 2.0), strict=True):
        send(broker, name, [record(time=hour(0), temperature_2m=value)])
    stream.merge()
    newest = rows(stream)
    stream.table = replace(stream.table, source=Topics(names[::-1]))
    stream.replay()
    assert rows(stream) == newest, "the order of the topics in the declaration does not decide"


@pytest.mark.slow
@pytest.mark.invariant("9.1", "8.12", "2.8")
def test_a_topic_that_was_created_again_stops_the_run_and_rejected_records_of_all_topics_are_redriven(
    spark: SparkSession, broker: Settings
) -> None:
    stream = create(spark, broker, "eu", "us")
    strict = stream.table
    send_to(stream, "eu", record(time=hour(0), temperature_2m=1.0), record(time=hour(1), temperature_2m=61.0))
    send_to(stream, "us", record(time=hour(2), temperature_2m=62.0))
    stream.table = replace(strict, columns=[_narrow(column) for column in strict.record_columns])
    stream.merge()
    assert rows(stream) == {hour(0): (1.0, "eu")}
    delete_topic(broker, f"{strict.name}-eu")
    with pytest.raises(TopicError, match="does not exist"):
        stream.merge()
    create_topic(broker, strict.in_topic(f"{strict.name}-eu"))
    send_to(stream, "eu", record(time=hour(3), temperature_2m=4.0))
    with pytest.raises(DataLossError, match="deleted and created again"):
        stream.merge()
    assert "deleted and created again" in (status(broker, stream.table).loss or "")
    accept_gaps(stream)
    stream.merge()
    assert set(rows(stream)) == {hour(0), hour(3)}
    stream.table = strict
    assert sum(counts(outcome.entry)["inserted"] for outcome in redrive(stream.context)) == 2
    assert rows(stream) == {
        hour(0): (1.0, "eu"),
        hour(1): (61.0, "eu"),
        hour(2): (62.0, "us"),
        hour(3): (4.0, "eu"),
    }
    assert redrive(stream.context) == []
    assert all(finding.passed for finding in audit(stream.ledger))


def _narrow(column: Column) -> Column:
    return replace(column, between=(-90, 50)) if column.name == "temperature_2m" else column


@pytest.mark.slow
@pytest.mark.invariant("2.8", "4.5")
def test_a_log_table_and_a_table_of_one_topic_continue_with_several(spark: SparkSession, broker: Settings) -> None:
    name = f"t_{uuid4().hex[:12]}"
    table = StreamTable(
        name, source=Topic(name, partitions=1), doc="Log.", columns=[Column("id", "BIGINT", "Number."), SHOP], key=[]
    )
    second = f"{name}-us"
    for topic in (name, second):
        create_topic(broker, table.in_topic(topic))
    send(broker, name, [b'{"id": 1}'])
    stream = Stream(spark, broker, table)
    stream.merge()
    stream.table = replace(table, topic="", source=Topics([name, second]))
    send(broker, second, [b'{"id": 1}', b'{"id": 2}'])
    send(broker, name, [b'{"id": 3}'])
    assert [outcome.entry.commit.kind for outcome in stream.merge()] == ["batch", "start", "batch"]
    expected_rows = [(1, name), (1, second), (2, second), (3, name)]
    assert sorted((row["id"], row["topic"]) for row in rows_of(broker, name)) == expected_rows
    stream.replay()
    assert sorted((row["id"], row["topic"]) for row in rows_of(broker, name)) == expected_rows
    stream.assert_accounted()
