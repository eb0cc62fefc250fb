"""A rejected record stays until it is accepted, even if batches fail or tables are restored; one shared history."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from lakehouse.decoding.fields import TIMELESS
from lakehouse.errors import ConflictError
from lakehouse.ingest import batches
from lakehouse.ingest.rejected_records import store_rejected
from lakehouse.ingest.replay import replay
from lakehouse.kafka import create_topic, delete_topic, read
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.brokers.streams import Stream, counts, record
from lakehouse_tests.helpers.tables.rejected import (
    HOT,
    crashing,
    dated_by_producers,
    end,
    hot,
    list_rejections,
    list_resolutions,
    redrive_around,
    redrive_records,
    wider,
)


@pytest.fixture(scope="module")
def shared_stream(spark, broker) -> Stream:
    return Stream.create(spark, broker)


@pytest.fixture
def stream(shared_stream: Stream) -> Iterator[Stream]:
    with redrive_around(shared_stream):
        yield shared_stream


@pytest.mark.invariant("8.3", "8.4")
def test_the_next_redrive_repairs_one_that_crashed_before_or_after_its_commit(stream, monkeypatch):
    first_offset = end(stream)
    (hour,) = hot(stream, 1)
    stream.merge()
    with crashing(monkeypatch, "merge_by_key"):
        redrive_records(stream)
    assert list_rejections(stream, first_offset) == {"out_of_range": [first_offset]}
    with crashing(monkeypatch, "merge_by_key"):
        wider(stream).replay()
    assert list_rejections(stream, first_offset) == {"out_of_range": [first_offset]}
    with crashing(monkeypatch, "store_rejected"):
        redrive_records(stream)
    assert list_rejections(stream, first_offset) == {"out_of_range": [first_offset]}
    assert stream.temperatures()[hour] == HOT
    (outcome,) = redrive_records(stream, "out_of_range")
    assert counts(outcome.entry) == dict(read=1, rejected=0, superseded=0, inserted=0, updated=0, stale=1)
    assert list_resolutions(stream, first_offset) == [(first_offset, outcome.entry.commit.number)]


@pytest.mark.invariant("8.3")
def test_a_batch_that_never_committed_resolves_nothing(stream, monkeypatch):
    """The next commit takes its number, for example a gap that skips its records."""
    first_offset = end(stream)
    hot(stream, 2)
    with crashing(monkeypatch, "merge_by_key"):
        stream.merge()
    with crashing(monkeypatch, "merge_by_key"):
        wider(stream).merge()
    assert list_resolutions(stream, first_offset) == []
    with crashing(monkeypatch, "require_accounted"):
        wider(stream).merge()
    number = stream.ledger.newest.commit.number
    assert list_resolutions(stream, first_offset) == [(first_offset, number), (first_offset + 1, number)]


@pytest.mark.invariant("8.4")
def test_the_next_redrive_sets_the_marks_that_another_writer_prevented(stream, monkeypatch):
    first_offset = end(stream)
    hot(stream, 1)
    stream.merge()
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {stream.ledger.version - 1}")

    def fail_if_committed(*arguments: Any, is_committed: bool = True) -> bool:
        if is_committed:
            raise ConflictError("another writer")
        return store_rejected(*arguments, is_committed=is_committed)

    with monkeypatch.context() as patch:
        patch.setattr(batches, "store_rejected", fail_if_committed)
        (batch,) = wider(stream).merge()
    assert batch.entry.metrics.inserted == 1
    assert list_resolutions(stream, first_offset) == []
    redrive_records(wider(stream), "out_of_range")
    assert [offset for offset, _ in list_resolutions(stream, first_offset)] == [first_offset]


@pytest.mark.invariant("8.5")
def test_records_of_an_undone_redrive_are_listed_again_even_without_history(stream):
    first_offset = end(stream)
    (hour,) = hot(stream, 1)
    (batch,) = stream.merge()
    (undone_outcome,) = redrive_records(stream, "out_of_range")
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {batch.entry.version}")
    assert undone_outcome.entry.commit.number in stream.ledger.undone_numbers
    assert list_rejections(stream, first_offset) == {"out_of_range": [first_offset]}
    # that history expires one day; the next batch records the undone commits in the table
    stream.merge_hours(1)
    assert list_resolutions(stream, first_offset) == []
    (second_outcome,) = redrive_records(stream, "out_of_range")
    assert list_resolutions(stream, first_offset) == [(first_offset, second_outcome.entry.commit.number)]
    assert stream.temperatures()[hour] == HOT


@pytest.mark.invariant("8.5")
def test_a_redrive_that_was_undone_and_brought_back_is_marked_by_the_next_redrive(stream):
    first_offset = end(stream)
    hot(stream, 1)
    (batch,) = stream.merge()
    (redriven,) = redrive_records(stream, "out_of_range")
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {batch.entry.version}")
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {redriven.entry.version}")
    assert list_rejections(stream, first_offset) == {}
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {batch.entry.version}")
    stream.merge_hours(1)
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {redriven.entry.version}")
    assert list_rejections(stream, first_offset) == {"out_of_range": [first_offset]}
    (outcome,) = redrive_records(stream, "out_of_range")
    assert counts(outcome.entry) == dict(read=1, rejected=0, superseded=0, inserted=0, updated=0, stale=1)
    assert list_rejections(stream, first_offset) == {}


@pytest.mark.invariant("8.5")
def test_records_redriven_after_a_backup_are_rejected_again_after_its_restore(stream, tmp_path):
    first_offset = end(stream)
    (hour,) = hot(stream, 1)
    stream.merge()
    shutil.copytree(stream.uri, tmp_path / "backup")
    redrive_records(stream, "out_of_range")
    shutil.rmtree(stream.uri)
    shutil.copytree(tmp_path / "backup", stream.uri)
    assert list_rejections(stream, first_offset) == {"out_of_range": [first_offset]}
    stream.send_hours(1)
    stream.merge()  # gets the number of the redrive
    assert list_resolutions(stream, first_offset) == []
    redrive_records(stream, "out_of_range")
    assert stream.temperatures()[hour] == HOT


@pytest.mark.invariant("8.12")
def test_records_of_each_topic_identity_are_redriven_in_their_own_commit(stream):
    (first_hour,) = hot(stream, 1)
    stream.merge()
    delete_topic(stream.settings, stream.table.topic)
    create_topic(stream.settings, stream.table)
    stream.accept_gap()
    (second_hour,) = hot(stream, 1)
    stream.merge()
    progress = stream.ledger.progress
    assert [outcome.entry.metrics.inserted for outcome in redrive_records(stream, "out_of_range")] == [1, 1]
    assert {first_hour, second_hour} <= set(stream.temperatures())
    assert stream.ledger.progress == progress


IMPOSSIBLE_TIME = 2**63 - 1  # milliseconds, which Spark's source cannot read


@pytest.mark.invariant("8.7", "8.8")
def test_many_records_without_a_time_are_read_in_several_commits_and_none_is_missed(stream, monkeypatch):
    """With little room a batch ends after the first such record, or before one that is far from the others."""
    first_offset = end(stream)
    monkeypatch.setattr(read, "MOST_HOLES", 1)
    monkeypatch.setattr(read, "MAX_NEAR_RECORDS", 0)
    hours = stream.hours(5)
    with dated_by_producers(stream) as send:
        for number, hour in enumerate(hours):
            send(IMPOSSIBLE_TIME if number % 2 else 1_700_000_000_000, record(time=hour))
    merged_hours = {hours[0], hours[2], hours[4]}
    assert [outcome.plan.span for outcome in stream.merge()] == [3, 2]
    assert set(hours) & set(stream.temperatures()) == merged_hours
    assert list_rejections(stream, first_offset) == {TIMELESS: [first_offset + 3, first_offset + 1]}
    outcomes = replay(stream.context, [Range(0, first_offset, first_offset + 5)])
    assert [outcome.plan.span for outcome in outcomes] == [3, 2]
    monkeypatch.setattr(read, "ROOM", 1)
    monkeypatch.setattr(read, "MOST_HOLES", 9)
    outcomes = replay(stream.context, [Range(0, first_offset, first_offset + 5)])
    assert [outcome.plan.span for outcome in outcomes] == [2, 2, 1]
    assert sum(outcome.entry.stale for outcome in outcomes) == len(merged_hours)
