"""A record that cannot enter is kept until it can, whatever happens to its batch or its tables; one shared history."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from lakehouse.decoding.fields import TIMELESS
from lakehouse.errors import ConflictError
from lakehouse.ingest import batches
from lakehouse.ingest.rejected_records import store_rejected
from lakehouse.ingest.replay import replay
from lakehouse.kafka import create_topic, delete_topic, timeless
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.brokers.streams import Stream, counts, record
from lakehouse_tests.helpers.tables.rejected import (
    HOT,
    crashing,
    dated_by_producers,
    end,
    hot,
    listed,
    redriven,
    resolved,
    wider,
)

pytestmark = pytest.mark.invariant(7, 8)


@pytest.fixture(scope="module")
def shared(spark, broker) -> Stream:
    return Stream.create(spark, broker)


@pytest.fixture
def stream(shared: Stream) -> Iterator[Stream]:
    """All that was sent is merged or redriven before and after a test, and its history accounts for it."""
    shared.merge()
    yield shared
    redriven(shared)
    shared.merge()
    shared.assert_accounted()


def test_a_crash_before_the_commit_marks_nothing_and_one_after_it_is_healed_by_the_next_redrive(stream, monkeypatch):
    at = end(stream)
    (hour,) = hot(stream, 1)
    stream.merge()
    with crashing(monkeypatch, "merge_rows"):
        redriven(stream)
    assert listed(stream, at) == {"out_of_range": [at]}
    with crashing(monkeypatch, "store_rejected"):
        redriven(stream)
    assert listed(stream, at) == {"out_of_range": [at]}
    assert stream.temperatures()[hour] == HOT
    (outcome,) = redriven(stream, "out_of_range")
    assert counts(outcome.entry) == dict(read=1, rejected=0, duplicate=0, inserted=0, updated=0, stale=1)
    assert resolved(stream, at) == [(at, outcome.entry.commit.number)]


def test_a_batch_that_never_committed_resolves_nothing(stream, monkeypatch):
    """Its number is taken by whatever commits next, as by a gap that steps over its records."""
    at = end(stream)
    hot(stream, 2)
    with crashing(monkeypatch, "merge_rows"):
        stream.merge()
    with crashing(monkeypatch, "merge_rows"):
        wider(stream).merge()
    assert resolved(stream, at) == []
    with crashing(monkeypatch, "require_accounted"):
        wider(stream).merge()
    number = stream.ledger.newest.commit.number
    assert resolved(stream, at) == [(at, number), (at + 1, number)]


def test_a_batch_whose_marks_another_writer_prevents_is_merged_and_the_next_redrive_sets_them(stream, monkeypatch):
    at = end(stream)
    hot(stream, 1)
    stream.merge()
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {stream.ledger.version - 1}")

    def prevented(*decided: Any, committed: bool = True) -> bool:
        if committed:
            raise ConflictError("another writer")
        return store_rejected(*decided, committed=committed)

    with monkeypatch.context() as patch:
        patch.setattr(batches, "store_rejected", prevented)
        (batch,) = wider(stream).merge()
    assert batch.entry.metrics.inserted == 1
    assert resolved(stream, at) == []
    redriven(wider(stream), "out_of_range")
    assert [offset for offset, _ in resolved(stream, at)] == [at]


def test_what_a_restore_undid_is_listed_again_also_when_its_history_has_expired(stream):
    at = end(stream)
    (hour,) = hot(stream, 1)
    (batch,) = stream.merge()
    (undone,) = redriven(stream, "out_of_range")
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {batch.entry.version}")
    assert undone.entry.commit.number in stream.ledger.undone
    assert listed(stream, at) == {"out_of_range": [at]}
    # the history that tells what was undone expires one day; with the next batch, the table tells it
    stream.send_hours(1)
    stream.merge()
    assert resolved(stream, at) == []
    (again,) = redriven(stream, "out_of_range")
    assert resolved(stream, at) == [(at, again.entry.commit.number)]
    assert stream.temperatures()[hour] == HOT


def test_what_passed_after_the_backup_that_a_table_was_brought_back_from_is_rejected_again(stream, tmp_path):
    at = end(stream)
    (hour,) = hot(stream, 1)
    stream.merge()
    shutil.copytree(stream.uri, tmp_path / "backup")
    redriven(stream, "out_of_range")
    shutil.rmtree(stream.uri)
    shutil.copytree(tmp_path / "backup", stream.uri)
    assert listed(stream, at) == {"out_of_range": [at]}
    stream.send_hours(1)
    stream.merge()  # takes the number of the redrive
    assert resolved(stream, at) == []
    redriven(stream, "out_of_range")
    assert stream.temperatures()[hour] == HOT


def test_the_records_of_each_incarnation_of_a_topic_are_redriven_in_a_commit_of_their_own(stream):
    (first,) = hot(stream, 1)
    stream.merge()
    delete_topic(stream.settings, stream.table.topic)
    create_topic(stream.settings, stream.table)
    stream.accept_gap()
    (second,) = hot(stream, 1)
    stream.merge()
    progress = stream.ledger.progress
    assert [outcome.entry.metrics.inserted for outcome in redriven(stream, "out_of_range")] == [1, 1]
    assert {first, second} <= set(stream.temperatures())
    assert stream.ledger.progress == progress


BEYOND = 2**63 - 1  # milliseconds: Spark's source does not read it


def test_many_records_without_a_time_are_read_in_several_commits_and_none_is_missed(stream, monkeypatch):
    """Little room: a batch ends behind the first of them, or before one that stands far from those before it."""
    at = end(stream)
    monkeypatch.setattr(timeless, "MOST_HOLES", 1)
    monkeypatch.setattr(timeless, "NEAR", 0)
    hours = stream.hours(5)
    with dated_by_producers(stream) as send:
        for nth, hour in enumerate(hours):
            send(BEYOND if nth % 2 else 1_700_000_000_000, record(time=hour))
    held = {hours[0], hours[2], hours[4]}
    assert [outcome.plan.span for outcome in stream.merge()] == [3, 2]
    assert set(hours) & set(stream.temperatures()) == held
    assert listed(stream, at) == {TIMELESS: [at + 3, at + 1]}
    assert [outcome.plan.span for outcome in replay(stream.context, [Range(0, at, at + 5)])] == [3, 2]
    monkeypatch.setattr(timeless, "ROOM", 1)
    monkeypatch.setattr(timeless, "MOST_HOLES", 9)
    outcomes = replay(stream.context, [Range(0, at, at + 5)])
    assert [outcome.plan.span for outcome in outcomes] == [2, 2, 1]
    assert sum(outcome.entry.metrics.stale for outcome in outcomes) == len(held)
