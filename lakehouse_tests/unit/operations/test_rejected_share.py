"""The checks of the newest commits: the share of rejected records, equal versions, and the clocks of producers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse.declaration import Column
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka.metadata import TopicState
from lakehouse.ledger.commit_values import Totals
from lakehouse.ledger.commits import Commit, Entry, Kind, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import SourceId
from lakehouse.operations.verify import producer_time, rejected_share, versions_decide
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.tables.log_tables import log_table
from lakehouse_tests.helpers.tables.tables import redeclare

NOW = datetime(2026, 5, 2, 12, tzinfo=UTC)


def entry(number: int, ago: timedelta, read: int, rejected: int, kind: Kind = "batch") -> Entry:
    totals = Totals(batches=number - 1, read=9_000, rejected=4_000)
    commit = Commit(
        kind=kind,
        number=number,
        attempt="a",
        table_version=number - 1,
        read=read,
        rejected=rejected,
        totals_before=totals,
    )
    return Entry(number, NOW - ago, commit, Metrics(source_rows=read - rejected, inserted=read - rejected))


def share_of(*entries: Entry) -> tuple[bool, str]:
    """The result of the check for a history, oldest first: passed, and the detail."""
    finding = rejected_share(Ledger("", entries=entries[::-1], transaction=len(entries)), NOW)
    return finding.passed, finding.detail


def test_equal_versions_of_the_last_day_fail_their_check() -> None:
    entries = [entry(1, timedelta(hours=25), 10, 0), entry(2, timedelta(hours=2), 10, 0)]
    tied_entries = [replace(e, commit=e.commit.with_fields(equal_versions=4)) for e in entries]
    finding = versions_decide(Ledger("", entries=tuple(tied_entries[::-1]), transaction=2), NOW)
    assert not finding.passed
    assert "4 records have a key and a version that an earlier record of their batch or a row has" in finding.detail
    assert versions_decide(Ledger("", entries=(tied_entries[0],), transaction=1), NOW).passed
    assert versions_decide(Ledger("", entries=tuple(entries[::-1]), transaction=2), NOW).passed


def test_rejections_of_more_than_a_day_ago_do_not_count() -> None:
    has_passed, detail = share_of(entry(1, timedelta(hours=25), 5_000, 4_500), entry(2, timedelta(hours=1), 100, 0))
    assert has_passed
    assert "since 2026-05-02 11:00 UTC" in detail


def test_recent_rejections_fail_the_check_and_the_detail_names_the_window() -> None:
    old_batch = entry(1, timedelta(days=9), 1_000_000, 0)
    recent_batches = [
        entry(2, timedelta(hours=2), 60, 1),
        entry(3, timedelta(hours=1), 40, 2),
        entry(4, timedelta(0), 0, 0),
    ]
    has_passed, detail = share_of(old_batch, *recent_batches)
    assert not has_passed
    assert "3 of 100 records were rejected (3.00%)" in detail
    assert "since 2026-05-02 10:00 UTC" in detail
    assert "24 hours" in detail


def test_only_the_newest_hundred_commits_count() -> None:
    rejected_batch = entry(1, timedelta(hours=2), 100, 100)
    clean_batches = [entry(number, timedelta(hours=1), 1, 0) for number in range(2, 102)]
    assert share_of(rejected_batch, *clean_batches)[0]
    assert not share_of(rejected_batch, *clean_batches[:99])[0]


def test_replays_and_redrives_do_not_count() -> None:
    batch = entry(1, timedelta(hours=2), 1_000, 1)
    rereads = entry(2, timedelta(0), 50, 50, "replay"), entry(3, timedelta(0), 50, 50, "redrive")
    assert share_of(batch, *rereads)[0]


def test_a_table_without_recent_merges_passes_the_check() -> None:
    assert share_of()[0]
    assert share_of(entry(1, timedelta(days=2), 100, 100))[0]


BY_BROKER = TopicState("readings", SourceId("kafka", "c/t"), {0: 0}, {0: 9})
BY_PRODUCER = replace(BY_BROKER, producer_time=True)
REVISION = Column("revision", "INT", required=True, doc="Version.")


@pytest.mark.invariant("4.4")
def test_a_topic_with_producer_time_fails_the_check_with_advice() -> None:
    assert producer_time(BY_BROKER, temperatures).passed
    finding = producer_time(BY_PRODUCER, temperatures)
    assert not finding.passed
    assert "message.timestamp.type=LogAppendTime" in finding.detail


@pytest.mark.invariant("4.4")
@pytest.mark.parametrize(
    "changes", [{"order": "offset"}, {"columns": [*temperatures.columns, REVISION], "version": BY_REVISION}]
)
def test_producer_time_is_harmless_if_a_version_or_the_offset_decides(changes: dict[str, Any]) -> None:
    assert producer_time(BY_PRODUCER, redeclare(temperatures, **changes)).passed


@pytest.mark.invariant("4.4")
def test_producer_time_is_harmless_in_a_log_table() -> None:
    assert producer_time(BY_PRODUCER, log_table(rollups=[])).passed
