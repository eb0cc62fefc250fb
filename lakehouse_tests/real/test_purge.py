"""Purging: old deletes are forgotten, and no record that one of them may have deleted becomes a row."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Debezium, Deletes, StreamTable, Topic
from lakehouse.ingest import horizon
from lakehouse.ingest.horizon import purge_deletes
from lakehouse.ingest.redrive import redrive
from lakehouse.kafka import create_topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.dying_deletes import DiedError
from lakehouse_tests.helpers.brokers.revised_streams import delete, outcome, row, stored_deletes, stream_with_revisions
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream
from lakehouse_tests.helpers.change_records import change
from lakehouse_tests.helpers.tables.rows import rows_of

PERIOD = timedelta(days=30)


@pytest.fixture
def stream(spark: SparkSession, broker: Settings) -> Stream:
    """A table whose records have a revision that orders them."""
    return stream_with_revisions(spark, broker, base=None, deletes=Deletes(when=DELETES, purge=PERIOD))


def age(stream: Stream, received_before: datetime) -> None:
    """Purge as if what was received before a time was received before the declared period."""
    purge_deletes(stream.context, received_before + PERIOD)


@pytest.mark.slow
@pytest.mark.invariant("14.8")
def test_a_record_that_a_purged_delete_may_have_deleted_does_not_become_a_row(stream: Stream) -> None:
    first, second, third, fourth = stream.hours(4)
    outcome(stream, row(first, 1), row(second, 1), row(third, 1))
    outcome(stream, delete(first, 5), delete(second, 3))
    now = datetime.now(UTC)
    age(stream, now)
    assert stored_deletes(stream) == 2, "no record since shows that new ones have a greater order"
    outcome(stream, row(fourth, 9))
    age(stream, now)
    assert stored_deletes(stream) == 0
    assert outcome(stream, row(first, 4), row(third, 2), row(second, 6)) == {
        "read": 3,
        "rejected": 1,
        "updated": 1,
        "inserted": 1,
    }
    assert set(stream.temperatures()) == {second, third, fourth}
    (rejected,) = stream.sql("SELECT reason, CAST(value AS STRING) FROM {rejected}")
    assert rejected == ("beyond_horizon", row(first, 4).decode())
    assert redrive(stream.context) == []
    stream.replay()
    assert set(stream.temperatures()) == {second, third, fourth}


@pytest.mark.invariant("14.8")
def test_a_delete_with_a_version_in_the_far_future_is_not_purged(stream: Stream) -> None:
    first, second, third = stream.hours(3)
    outcome(stream, delete(first, 5), delete(second, 2_000_000_000))
    now = datetime.now(UTC)
    outcome(stream, row(third, 9))
    age(stream, now)
    assert stored_deletes(stream) == 1
    assert outcome(stream, row(first, 10), row(second, 10)) == {"read": 2, "inserted": 1, "stale": 1}


@pytest.mark.slow
@pytest.mark.invariant("14.8")
def test_a_purge_that_dies_between_its_commits_forgets_nothing(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = stream.hours(2)
    outcome(stream, delete(first, 5))
    now = datetime.now(UTC)
    outcome(stream, row(second, 9))

    def die(*_: Any) -> None:
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(horizon, "version_to_consume", die)
        with pytest.raises(DiedError):
            age(stream, now)
    assert stored_deletes(stream) == 0
    assert outcome(stream, row(first, 4)) == {"read": 1, "stale": 1}
    assert stored_deletes(stream) == 1
    age(stream, now)
    assert stored_deletes(stream) == 0
    before = stream.ledger.version
    age(stream, now)
    assert stream.ledger.version == before


@pytest.mark.slow
@pytest.mark.invariant("14.8")
def test_an_old_value_of_a_kept_column_does_not_return_after_a_purge(stream: Stream) -> None:
    first, second = stream.hours(2)
    outcome(stream, row(first, 1, temperature_2m=20.0), delete(first, 5))
    now = datetime.now(UTC)
    outcome(stream, row(first, 8, temperature_2m=None), row(second, 9))
    age(stream, now)
    assert outcome(stream, row(first, 4, temperature_2m=21.0)) == {"read": 1, "rejected": 1}
    assert stream.temperatures() == {first: None, second: 20.0}


@pytest.mark.slow
@pytest.mark.invariant("14.8")
def test_a_record_that_a_stored_delete_decides_about_is_stale_and_not_rejected(stream: Stream) -> None:
    first, second, third = stream.hours(3)
    outcome(stream, delete(first, 5))
    now = datetime.now(UTC)
    outcome(stream, row(third, 9), delete(second, 9))
    age(stream, now)
    assert stored_deletes(stream) == 1
    assert outcome(stream, row(second, 4), row(first, 4)) == {"read": 2, "rejected": 1, "stale": 1}
    assert set(stream.temperatures()) == {third}


@pytest.mark.slow
@pytest.mark.invariant("14.8")
def test_a_value_from_before_its_column_was_kept_is_known(stream: Stream) -> None:
    first, second, third = stream.hours(3)
    kept_table = stream.table
    columns = [replace(column, keep=False, null_erases=False) for column in kept_table.record_columns]
    stream.table = replace(kept_table, columns=columns)
    outcome(stream, row(first, 6, temperature_2m=20.0), delete(second, 5))
    now = datetime.now(UTC)
    stream.table = kept_table
    outcome(stream, row(third, 9))
    age(stream, now)
    assert stored_deletes(stream) == 0
    assert outcome(stream, row(first, 4, temperature_2m=21.0)) == {"read": 1, "stale": 1}
    assert stream.temperatures()[first] == 20.0


@pytest.mark.slow
@pytest.mark.invariant("14.8")
def test_rows_of_the_newest_snapshot_are_merged_after_a_purge(spark: SparkSession, broker: Settings) -> None:
    name = f"t_{uuid4().hex[:12]}"
    columns = [Column("id", "BIGINT", "Number.", required=True)]
    table = StreamTable(
        name,
        source=Topic(name, partitions=1),
        doc="",
        columns=columns,
        key=["id"],
        format=Debezium(),
        deletes=Deletes(purge=timedelta(days=1)),
    )
    create_topic(broker, table)
    stream = Stream(spark, broker, table)
    stream.send_and_merge(change("c", 10, {"id": 1}), change("d", 20, {"id": 1}))
    now = datetime.now(UTC)
    stream.send_and_merge(change("r", 500, {"id": 2}))
    purge_deletes(stream.context, now + timedelta(days=1))
    assert stored_deletes(stream) == 0
    stream.send(change("r", 500, {"id": 3}), change("c", 490, {"id": 4}), change("c", 600, {"id": 5}))
    (merged,) = stream.merge()
    assert (merged.entry.commit.rejected, merged.entry.metrics.inserted) == (0, 3)
    stream.replay()
    assert {stored_row["id"] for stored_row in rows_of(broker, name)} == {2, 3, 4, 5}
