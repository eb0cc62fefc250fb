"""A rejected record is stored until it is accepted; the tests share one history, each with its own hours."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.declaration import Late
from lakehouse.decoding.fields import TIMELESS
from lakehouse.errors import LedgerError
from lakehouse.ingest import redrive
from lakehouse.ingest.replay import replay
from lakehouse.kafka import read_records, timeless_detail
from lakehouse.ledger.positions import Range
from lakehouse.operations.rejections import list_rejected
from lakehouse.operations.status import status
from lakehouse.sources import table_sources
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import Stream, counts, record
from lakehouse_tests.helpers.tables.rejected import (
    DAY,
    HOT,
    crashing,
    dated_by_producers,
    end,
    hot,
    list_rejections,
    list_resolutions,
    redrive_around,
    redrive_records,
    rejected_version,
    wider,
)
from lakehouse_tests.helpers.tables.rows import position, rows_of


@pytest.fixture(scope="module")
def shared_stream(spark, broker) -> Stream:
    return Stream.create(spark, broker)


@pytest.fixture
def stream(shared_stream: Stream) -> Iterator[Stream]:
    with redrive_around(shared_stream):
        yield shared_stream


@pytest.mark.invariant("8.12")
@pytest.mark.slow
def test_redriven_records_are_merged_in_order_and_marked_with_their_commit_number(stream):
    start = end(stream)
    first, second = hot(stream, 2)
    (batch,) = stream.send_and_merge(b"{", record(time=second, temperature_2m=1.0))
    assert counts(batch.entry) == dict(read=4, rejected=3, superseded=0, inserted=1, updated=0, stale=0)
    progress, totals = stream.ledger.progress, stream.ledger.totals
    (outcome,) = redrive_records(stream, "out_of_range")
    assert counts(outcome.entry) == dict(read=2, rejected=0, superseded=0, inserted=1, updated=0, stale=1)
    assert (outcome.entry.commit.kind, outcome.entry.commit.number) == ("redrive", batch.entry.commit.number + 1)
    temperatures = stream.temperatures()
    assert (temperatures[first], temperatures[second]) == (HOT, 1.0)
    number = outcome.entry.commit.number
    assert list_resolutions(stream, start) == [(start, number), (start + 1, number)]
    assert list_rejections(stream, start) == {"truncated": [start + 2]}
    assert (stream.ledger.progress, stream.ledger.totals) == (progress, totals)
    version = stream.ledger.version
    assert redrive_records(stream) == []
    assert stream.ledger.version == version


@pytest.mark.invariant("8.3", "8.6")
@pytest.mark.slow
def test_pending_records_are_neither_listed_nor_redriven(stream, monkeypatch):
    """A batch that stored its rejected records and crashed has not committed: its records are read again."""
    start = end(stream)
    hot(stream, 1)
    with crashing(monkeypatch, "merge_by_key"):
        stream.merge()
    assert (0, start, "out_of_range") in stream.rejected()
    assert list_rejections(stream, start) == {}
    assert redrive_records(stream, "out_of_range") == []
    (outcome,) = wider(stream).merge()
    assert counts(outcome.entry) == dict(read=1, rejected=0, superseded=0, inserted=1, updated=0, stale=0)
    assert list_resolutions(stream, start) == [(start, outcome.entry.commit.number)]


@pytest.mark.invariant("8.5")
@pytest.mark.slow
def test_a_replay_resolves_accepted_records_and_leaves_those_that_it_did_not_read(stream, monkeypatch):
    """A compacted topic has holes: a record in a hole is not read, and so it is not accepted."""
    start = end(stream)
    hot(stream, 2)
    stream.merge()
    with monkeypatch.context() as patch:
        patch.setattr(table_sources, "read_records", lambda *plan: read_records(*plan).where(f"_position <> {start}"))
        replay(TableContext(stream.spark, stream.settings, wider(stream).table), [Range(0, start, start + 2)])
    assert list_rejections(stream, start) == {"out_of_range": [start]}
    assert list_resolutions(stream, start) == [(start + 1, stream.ledger.newest.commit.number)]


# milliseconds; Spark's Kafka source cannot read them
TOO_LARGE_TIMES = [2**63 - 1, 1_700_000_000_000_000_000, -(2**63)]


@pytest.mark.invariant("8.7")
@pytest.mark.slow
def test_a_record_whose_time_exceeds_a_timestamp_is_rejected_and_stops_no_other(stream):
    start = end(stream)
    hours = stream.hours(4)
    with dated_by_producers(stream) as send:
        for hour, time in zip(hours, [*TOO_LARGE_TIMES, 1_700_000_000_000], strict=True):
            send(time, record(time=hour))
    other_hours = stream.send_hours(1, partition=1)
    (batch,) = stream.merge()
    assert counts(batch.entry) == dict(read=5, rejected=3, superseded=0, inserted=2, updated=0, stale=0)
    assert {hours[3], *other_hours} <= set(stream.temperatures())
    (group,) = [g for g in list_rejected(stream.settings, stream.table) if g.reason == TIMELESS]
    samples = {sample.position: (sample.time, sample.value, sample.detail) for sample in group.samples}
    assert samples == {
        start + index: (None, record(time=hour), timeless_detail(time))
        for index, (hour, time) in enumerate(zip(hours, TOO_LARGE_TIMES, strict=False))
    }
    before = rejected_version(stream)
    (replay_outcome,) = replay(stream.context, [Range(0, start, start + 4)])
    assert counts(replay_outcome.entry) == dict(read=4, rejected=3, superseded=0, inserted=0, updated=0, stale=1)
    assert redrive_records(stream) == []
    assert rejected_version(stream) == before
    assert list_rejections(stream, start) == {TIMELESS: [start + 2, start + 1, start]}


@pytest.mark.invariant("8.2")
@pytest.mark.slow
def test_nothing_is_written_if_nothing_is_rejected_or_decided_again(stream):
    start = end(stream)
    stream.send_and_merge(b"{")
    before = rejected_version(stream)
    stream.merge_hours(1)
    replay(stream.context, [Range(0, start, start + 2)])
    assert rejected_version(stream) == before
    assert list_rejections(stream, start) == {"truncated": [start]}


def test_a_batch_of_rejected_records_alone_moves_the_progress(stream):
    start = end(stream)
    (outcome,) = stream.send_and_merge(b"{", b"")
    assert counts(outcome.entry) == dict(read=2, rejected=2, superseded=0, inserted=0, updated=0, stale=0)
    assert end(stream) == start + 2
    assert stream.merge() == []


@pytest.mark.invariant("8.18")
@pytest.mark.slow
def test_rejected_records_that_were_deleted_stop_merges_until_a_replay_of_all_records(stream):
    start = end(stream)
    stream.send_and_merge(b"{", record(time=stream.hours(1)[0]))
    rejections_before = list_rejections(stream, start)
    shutil.rmtree(stream.settings.table_uri(stream.table.rejected_name))
    assert "rejected records are missing" in str(status(stream.settings, stream.table).loss)
    stream.send(b"{")
    for step in (stream.merge, lambda: redrive_records(stream), lambda: list_rejections(stream, 0)):
        with pytest.raises(LedgerError, match=f"lakehouse replay {stream.table.name}"):
            step()
    replay(stream.context, [Range(0, start, start + 1)])
    with pytest.raises(LedgerError):  # this has decided only some records again
        stream.merge()
    stream.replay()
    assert list_rejections(stream, start) == rejections_before
    stream.merge()
    assert list_rejections(stream, start) == {"truncated": [start + 2, start]}
    assert stream.replay() and stream.ledger.entries[0].commit.kind == "replay", "nothing is left to record"


@pytest.mark.invariant("8.9")
@pytest.mark.slow
def test_lateness_depends_on_two_times_of_a_record_in_batch_replay_and_redrive(spark, broker):
    stream = Stream.create(spark, broker, late=Late("observed_at", DAY))
    event_times = [f"{datetime.now(UTC) - timedelta(hours=hours):%Y-%m-%dT%H:%M}" for hours in (0, 1, 1, 49, 480)]
    (outcome,) = stream.send_and_merge(*(record(time=time) for time in event_times))
    assert counts(outcome.entry) == dict(read=5, rejected=2, superseded=1, inserted=2, updated=0, stale=0)
    rows, rejected_rows = stream.snapshot(), rows_of(stream.settings, stream.table.rejected_name)
    assert {position(row)[1]: row["reason"] for row in rejected_rows} == {3: "late", 4: "late"}
    assert all(
        event_times[position(row)[1]] in row["detail"] and "limit 1 day" in row["detail"] for row in rejected_rows
    )
    stream.replay()
    assert redrive.redrive(TableContext(spark, broker, stream.table)) == []
    assert (stream.snapshot(), rows_of(stream.settings, stream.table.rejected_name)) == (rows, rejected_rows)
    stream.table = replace(stream.table, late=Late("observed_at", 10 * DAY))
    (outcome,) = redrive.redrive(TableContext(spark, broker, stream.table))
    assert counts(outcome.entry) == dict(read=2, rejected=1, superseded=0, inserted=1, updated=0, stale=0)
    assert [entry.commit.late for entry in reversed(stream.ledger.entries)] == [2, 2, 1]
    stream.table = replace(stream.table, late=Late("observed_at", DAY, "accept"))
    (outcome,) = stream.replay()
    assert (outcome.entry.commit.late, outcome.entry.metrics.inserted) == (2, 1)
    stream.assert_accounted()
