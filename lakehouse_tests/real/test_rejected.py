"""A record that cannot enter is kept until it can; the tests share one history, each with hours of its own."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.declaration import Late
from lakehouse.decoding.fields import TIMELESS
from lakehouse.ingest import batches, redrive
from lakehouse.ingest.replay import replay
from lakehouse.kafka import read_records, timeless_detail
from lakehouse.ledger.positions import Range
from lakehouse.operations.rejections import list_rejected
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import Stream, counts, record
from lakehouse_tests.helpers.tables.rejected import (
    DAY,
    HOT,
    crashing,
    dated_by_producers,
    end,
    hot,
    listed,
    redriven,
    rejected_version,
    resolved,
    wider,
)
from lakehouse_tests.helpers.tables.rows import position, rows_of

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


def test_what_passes_is_merged_in_order_and_marked_with_the_number_of_its_commit(stream):
    at = end(stream)
    first, second = hot(stream, 2)
    stream.send(b"{", record(time=second, temperature_2m=1.0))
    (batch,) = stream.merge()
    assert counts(batch.entry) == dict(read=4, rejected=3, duplicate=0, inserted=1, updated=0, stale=0)
    progress, totals = stream.ledger.progress, stream.ledger.totals
    (outcome,) = redriven(stream, "out_of_range")
    assert counts(outcome.entry) == dict(read=2, rejected=0, duplicate=0, inserted=1, updated=0, stale=1)
    assert (outcome.entry.commit.kind, outcome.entry.commit.number) == ("redrive", batch.entry.commit.number + 1)
    held = stream.temperatures()
    assert (held[first], held[second]) == (HOT, 1.0)
    number = outcome.entry.commit.number
    assert resolved(stream, at) == [(at, number), (at + 1, number)]
    assert listed(stream, at) == {"truncated": [at + 2]}
    assert (stream.ledger.progress, stream.ledger.totals) == (progress, totals)
    version = stream.ledger.version
    assert redriven(stream) == []
    assert stream.ledger.version == version


@pytest.mark.slow
def test_pending_records_are_neither_listed_nor_redriven(stream, monkeypatch):
    """A batch that stored what it rejected and died has not committed: its records are read again."""
    at = end(stream)
    hot(stream, 1)
    with crashing(monkeypatch, "merge_rows"):
        stream.merge()
    assert (0, at, "out_of_range") in stream.rejected()
    assert listed(stream, at) == {}
    assert redriven(stream, "out_of_range") == []
    (outcome,) = wider(stream).merge()
    assert counts(outcome.entry) == dict(read=1, rejected=0, duplicate=0, inserted=1, updated=0, stale=0)
    assert resolved(stream, at) == [(at, outcome.entry.commit.number)]


@pytest.mark.slow
def test_a_replay_resolves_what_passes_and_decides_nothing_of_what_it_did_not_read(stream, monkeypatch):
    """A compacted topic has holes: what stood in one was not read, so it did not pass."""
    at = end(stream)
    hot(stream, 2)
    stream.merge()
    with monkeypatch.context() as patch:
        patch.setattr(batches, "read_records", lambda *plan: read_records(*plan).where(f"_position <> {at}"))
        replay(TableContext(stream.spark, stream.settings, wider(stream).table), [Range(0, at, at + 2)])
    assert listed(stream, at) == {"out_of_range": [at]}
    assert resolved(stream, at) == [(at + 1, stream.ledger.newest.commit.number)]


BEYOND = [2**63 - 1, 1_700_000_000_000_000_000, -(2**63)]  # milliseconds: Spark's source reads none of them


@pytest.mark.slow
def test_a_record_whose_time_is_beyond_any_timestamp_is_rejected_and_stops_no_other(stream):
    at = end(stream)
    hours = stream.hours(4)
    with dated_by_producers(stream) as send:
        for hour, time in zip(hours, [*BEYOND, 1_700_000_000_000], strict=True):
            send(time, record(time=hour))
    other = stream.send_hours(1, partition=1)
    (batch,) = stream.merge()
    assert counts(batch.entry) == dict(read=5, rejected=3, duplicate=0, inserted=2, updated=0, stale=0)
    assert {hours[3], *other} <= set(stream.temperatures())
    (found,) = [each for each in list_rejected(stream.settings, stream.table) if each.reason == TIMELESS]
    told = {sample.position: (sample.time, sample.value, sample.detail) for sample in found.samples}
    assert told == {
        at + nth: (None, record(time=hour), timeless_detail(time))
        for nth, (hour, time) in enumerate(zip(hours, BEYOND, strict=False))
    }
    before = rejected_version(stream)
    (again,) = replay(stream.context, [Range(0, at, at + 4)])
    assert counts(again.entry) == dict(read=4, rejected=3, duplicate=0, inserted=0, updated=0, stale=1)
    assert redriven(stream) == []
    assert rejected_version(stream) == before
    assert listed(stream, at) == {TIMELESS: [at + 2, at + 1, at]}


@pytest.mark.slow
def test_where_nothing_is_rejected_or_decided_anew_nothing_is_written(stream):
    at = end(stream)
    stream.send(b"{")
    stream.merge()
    before = rejected_version(stream)
    stream.send_hours(1)
    stream.merge()
    replay(stream.context, [Range(0, at, at + 2)])
    assert rejected_version(stream) == before
    assert listed(stream, at) == {"truncated": [at]}


def test_a_batch_of_rejected_records_alone_moves_the_progress(stream):
    at = end(stream)
    stream.send(b"{", b"")
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=2, duplicate=0, inserted=0, updated=0, stale=0)
    assert end(stream) == at + 2
    assert stream.merge() == []


@pytest.mark.slow
def test_a_record_is_late_by_its_own_two_times_for_batch_replay_and_redrive_alike(spark, broker):
    stream = Stream.create(spark, broker, late=Late("observed_at", DAY))
    behind = [f"{datetime.now(UTC) - timedelta(hours=hours):%Y-%m-%dT%H:%M}" for hours in (0, 1, 1, 49, 480)]
    stream.send(*(record(time=time) for time in behind))
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=5, rejected=2, duplicate=1, inserted=2, updated=0, stale=0)
    rows, rejected = stream.snapshot(), rows_of(stream.settings, stream.table.rejected_name)
    assert {position(row)[1]: row["reason"] for row in rejected} == {3: "late", 4: "late"}
    assert all(behind[position(row)[1]] in row["detail"] and "limit 1 day" in row["detail"] for row in rejected)
    stream.replay()
    assert redrive.redrive(TableContext(spark, broker, stream.table)) == []
    assert (stream.snapshot(), rows_of(stream.settings, stream.table.rejected_name)) == (rows, rejected)
    stream.table = replace(stream.table, late=Late("observed_at", 10 * DAY))
    (outcome,) = redrive.redrive(TableContext(spark, broker, stream.table))
    assert counts(outcome.entry) == dict(read=2, rejected=1, duplicate=0, inserted=1, updated=0, stale=0)
    assert [entry.commit.late for entry in reversed(stream.ledger.entries)] == [2, 2, 1]
    stream.table = replace(stream.table, late=Late("observed_at", DAY, "accept"))
    (outcome,) = stream.replay()
    assert (outcome.entry.commit.late, outcome.entry.metrics.inserted) == (2, 1)
    stream.assert_accounted()
