"""A record that cannot enter is kept until it can; the tests share one history, each with hours of its own."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse.batch import ingest, redrive
from lakehouse.batch.rejected import store_rejected
from lakehouse.batch.replay import replay
from lakehouse.declaration import Late
from lakehouse.delta.engine import Engine
from lakehouse.delta.ledger import read_ledger
from lakehouse.errors import ConflictError
from lakehouse.tables.temperatures import temperatures
from lakehouse.topic import create_topic, delete_topic, read_records
from lakehouse.topic.offsets import Range
from lakehouse.upkeep.rejections import list_rejected
from lakehouse_tests.helpers.rows import position, rows_of
from lakehouse_tests.helpers.streams import Stream, counts, record

pytestmark = pytest.mark.invariant(7, 8)

WIDER = replace(temperatures.by_name["temperature_2m"], between=(-100, 100))
HOT = 80.0
DAY = timedelta(days=1)


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


def wider(stream: Stream) -> Stream:
    """The same table, whose declaration lets in what was too hot."""
    return replace(stream, table=replace(stream.table, columns=[*temperatures.columns[:3], WIDER]))


def redriven(stream: Stream, reason: str | None = None) -> list[ingest.Outcome]:
    """Redrive what is too hot no longer, where no broker answers: the records are in the table."""
    alone = stream.settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    return redrive.redrive(Engine(stream.spark, alone, wider(stream).table), reason)


def end(stream: Stream) -> int:
    """The offset that the next record of the first partition gets."""
    progress = stream.ledger.progress
    return progress.offsets[0] if progress else 0


def hot(stream: Stream, many: int) -> list[str]:
    """Send hours that are too hot for the declaration."""
    hours = stream.hours(many)
    stream.send(*(record(time=hour, temperature_2m=HOT) for hour in hours))
    return hours


@contextmanager
def crashing(monkeypatch: pytest.MonkeyPatch, step: str) -> Iterator[None]:
    """The process ends where a batch comes to this step."""

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ingest, step, crash)
        with pytest.raises(KeyboardInterrupt):
            yield


def listed(stream: Stream, since: int) -> dict[str, list[int]]:
    """The offsets from ``since`` on that are listed as rejected, newest first, by reason."""
    found = list_rejected(stream.settings, stream.table, limit=99)
    offsets = {each.reason: [sample.offset for sample in each.samples if sample.offset >= since] for each in found}
    return {reason: some for reason, some in offsets.items() if some}


def resolved(stream: Stream, since: int) -> list[tuple[int, int]]:
    """Offset and number of the commit of those that passed."""
    rows = rows_of(stream.settings, stream.table.rejected_name)
    found = [(position(row)[1], row["resolved_number"]) for row in rows if row["resolved_number"] is not None]
    return sorted(each for each in found if each[0] >= since)


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
        patch.setattr(ingest, "store_rejected", prevented)
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


def test_a_replay_resolves_what_passes_and_decides_nothing_of_what_it_did_not_read(stream, monkeypatch):
    """A compacted topic has holes: what stood in one was not read, so it did not pass."""
    at = end(stream)
    hot(stream, 2)
    stream.merge()
    with monkeypatch.context() as patch:
        patch.setattr(ingest, "read_records", lambda *plan: read_records(*plan).where(f"_offset <> {at}"))
        replay(Engine(stream.spark, stream.settings, wider(stream).table), [Range(0, at, at + 2)])
    assert listed(stream, at) == {"out_of_range": [at]}
    assert resolved(stream, at) == [(at + 1, stream.ledger.newest.commit.number)]


def test_where_nothing_is_rejected_or_decided_anew_nothing_is_written(stream):
    at = end(stream)
    stream.send(b"{")
    stream.merge()
    before = read_ledger(stream.settings.table_uri(stream.table.rejected_name), stream.table.rejected_name).version
    stream.send_hours(1)
    stream.merge()
    replay(stream.engine, [Range(0, at, at + 2)])
    after = read_ledger(stream.settings.table_uri(stream.table.rejected_name), stream.table.rejected_name).version
    assert after == before
    assert listed(stream, at) == {"truncated": [at]}


def test_a_batch_of_rejected_records_alone_moves_the_progress(stream):
    at = end(stream)
    stream.send(b"{", b"")
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=2, duplicate=0, inserted=0, updated=0, stale=0)
    assert end(stream) == at + 2
    assert stream.merge() == []


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
    assert redrive.redrive(Engine(spark, broker, stream.table)) == []
    assert (stream.snapshot(), rows_of(stream.settings, stream.table.rejected_name)) == (rows, rejected)
    stream.table = replace(stream.table, late=Late("observed_at", 10 * DAY))
    (outcome,) = redrive.redrive(Engine(spark, broker, stream.table))
    assert counts(outcome.entry) == dict(read=2, rejected=1, duplicate=0, inserted=1, updated=0, stale=0)
    assert [entry.commit.late for entry in reversed(stream.ledger.entries)] == [2, 2, 1]
    stream.table = replace(stream.table, late=Late("observed_at", DAY, "accept"))
    (outcome,) = stream.replay()
    assert (outcome.entry.commit.late, outcome.entry.metrics.inserted) == (2, 1)
    stream.assert_accounted()


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
