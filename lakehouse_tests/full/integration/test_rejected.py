"""A record that cannot enter is kept, with its bytes, its position and its own reason."""

from dataclasses import replace

import pytest

from lakehouse import ingest
from lakehouse.tables.temperatures import temperatures
from lakehouse_tests.helpers.streams import ABSENT, Stream, counts, hour, record

pytestmark = pytest.mark.invariant(8)

MALFORMED = {
    "truncated": b'{"latitude": 13.0, "longi',
    "invalid_json": b"temperature is 20",
    "not_an_object": b"[1, 2]",
    "empty_value": b"",
    "tombstone": None,
    "missing_field": record(latitude=ABSENT),
    "null_field": record(longitude=None),
    "out_of_range": record(latitude=91),
    "wrong_type": record(temperature_2m="warm"),
    "wrong_time_format": record(time="2023-01-01 00:00"),
    "no_such_date": record(time="2023-02-30T00:00"),
    "not_finite": record().replace(b"20.0", b"NaN"),
    "trailing_bytes": record() + b" junk",
    "duplicate_name": record()[:-1] + b', "latitude": 14.0}',
    "invalid_utf8": b'{"latitude": "\xff"}',
}


@pytest.fixture
def stream(spark, broker):
    return Stream.create(spark, broker)


def test_each_malformed_kind_is_kept_with_its_own_reason(stream):
    stream.send(*MALFORMED.values(), record())
    (outcome,) = stream.merge()
    assert [reason for _, _, reason in stream.rejected()] == list(MALFORMED)
    expected = dict(read=len(MALFORMED) + 1, rejected=len(MALFORMED), duplicate=0, inserted=1, updated=0, stale=0)
    assert counts(outcome.entry) == expected
    kept = stream.sql("SELECT value FROM {rejected} ORDER BY position.offset")
    assert [bytes(value) if value is not None else None for (value,) in kept] == list(MALFORMED.values())
    stream.assert_accounted()


def test_nothing_is_written_to_the_rejected_table_where_nothing_is_rejected(stream):
    stream.send(record())
    stream.merge()
    assert stream.sql("DESCRIBE HISTORY {rejected}")[0][0] == 0


def test_a_batch_of_rejected_records_alone_moves_the_progress(stream):
    stream.send(b"{", b"")
    (outcome,) = stream.merge()
    assert counts(outcome.entry)["rejected"] == 2
    assert stream.ledger.progress.offsets[0] == 2
    assert stream.merge() == []


def test_a_replay_of_rejected_records_writes_nothing_new(stream):
    stream.send(b"{", record())
    stream.merge()
    before = stream.sql("SELECT * FROM {rejected}")
    stream.replay()
    assert stream.sql("SELECT * FROM {rejected}") == before
    assert len(stream.sql("DESCRIBE HISTORY {rejected}")) == 2


def test_records_that_pass_under_a_changed_declaration_are_marked_as_resolved(stream):
    stream.send(record(temperature_2m=80.0), b"{")
    stream.merge()
    wider = replace(temperatures.by_name["temperature_2m"], between=(-100, 100))
    stream.table = replace(stream.table, columns=[*temperatures.columns[:3], wider])
    stream.replay()
    assert stream.rejected() == [(0, 1, "truncated")]
    assert stream.sql("SELECT resolved_number FROM {rejected} WHERE position.offset = 0") == [(2,)]
    assert stream.temperatures() == {hour(0): 80.0}


def test_a_replay_decides_nothing_about_records_that_are_no_longer_in_the_topic(stream, monkeypatch):
    """A compacted topic has holes: what stood in one was not read, so it did not pass."""
    stream.send(b"{", b"{", record())
    stream.merge()
    read_records = ingest.read_records
    monkeypatch.setattr(ingest, "read_records", lambda *plan: read_records(*plan).where("_offset <> 0"))
    stream.replay()
    assert stream.rejected() == [(0, 0, "truncated"), (0, 1, "truncated")]
