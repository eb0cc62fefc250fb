"""Whether a record is late follows from its own two times, so that whoever asks, and when, gets the same answer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse import redrive
from lakehouse.declaration import Late
from lakehouse_tests.helpers.streams import Stream, counts, record

pytestmark = pytest.mark.invariant(8)

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def at(behind: timedelta) -> str:
    """An event time so far behind now, to the minute."""
    return f"{NOW - behind:%Y-%m-%dT%H:%M}"


def stream_of(spark, broker, policy: Any) -> Stream:
    """Three records in time, one of them twice, and two late ones."""
    stream = Stream.create(spark, broker, late=Late("observed_at", DAY, policy))
    stream.send(*(record(time=at(timedelta(hours=hours))) for hours in (0, 1, 1, 49, 480)))
    stream.merge()
    return stream


def late_of(stream: Stream) -> list[int]:
    """How many were late, commit by commit, oldest first."""
    return [entry.commit.late for entry in reversed(stream.ledger.entries)]


def test_late_records_are_rejected_and_a_replay_and_a_redrive_judge_the_same(spark, broker):
    stream = stream_of(spark, broker, "reject")
    (entry,) = stream.ledger.entries
    assert counts(entry) == dict(read=5, rejected=2, duplicate=1, inserted=2, updated=0, stale=0)
    assert stream.rejected() == [(0, 3, "late"), (0, 4, "late")]
    ((detail,),) = stream.sql("SELECT detail FROM {rejected} WHERE position.offset = 3")
    assert at(timedelta(hours=49)) in detail
    assert "limit 1 day" in detail
    rows, rejected = stream.snapshot(), stream.sql("SELECT * FROM {rejected}")
    stream.replay()
    assert redrive.redrive(spark, broker, stream.table) == []
    assert (stream.snapshot(), stream.sql("SELECT * FROM {rejected}")) == (rows, rejected)
    assert late_of(stream) == [2, 2]
    stream.assert_accounted()

    stream.table = replace(stream.table, late=Late("observed_at", 10 * DAY))
    (outcome,) = redrive.redrive(spark, broker, stream.table)
    assert counts(outcome.entry) == dict(read=2, rejected=1, duplicate=0, inserted=1, updated=0, stale=0)
    assert outcome.entry.commit.late == 1
    assert stream.rejected() == [(0, 4, "late")]


def test_late_records_that_may_enter_are_counted(spark, broker):
    stream = stream_of(spark, broker, "accept")
    (entry,) = stream.ledger.entries
    assert counts(entry) == dict(read=5, rejected=0, duplicate=1, inserted=4, updated=0, stale=0)
    stream.replay()
    assert late_of(stream) == [2, 2]
