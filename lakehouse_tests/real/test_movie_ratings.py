"""The movie ratings example with real services: two schema versions, updates, duplicates and late records."""

from collections import Counter
from dataclasses import replace
from uuid import uuid4

import pytest

from lakehouse.examples.samples import MovieRatingSamples
from lakehouse.examples.tables.movie_ratings import movie_ratings
from lakehouse.kafka import PublishOptions, publish
from lakehouse.ledger.audit import audit
from lakehouse.operations.rejections import list_rejected
from lakehouse.operations.verify import verify_keys, verify_rollup, verify_rows
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.tables import redeclare

pytestmark = [pytest.mark.invariant("7.1", "8.9", "8.13"), pytest.mark.slow]

SAMPLES = MovieRatingSamples()
IS_APPROVED = "is_approved = (rating >= 7) AND rating_date = CAST(rating_timestamp AS DATE)"


@pytest.fixture
def stream(spark, registry) -> Stream:
    name = f"r_{uuid4().hex[:8]}"
    rollups = [replace(rollup, name=f"{name}_by_movie") for rollup in movie_ratings.rollups]
    table = redeclare(movie_ratings, name=name, topic=f"{name}.v1", rollups=rollups, partitions=2)
    return Stream.of(spark, registry, table)


def send(stream: Stream, kind: str) -> int:
    lines = SAMPLES.stream() if kind == "stream" else SAMPLES.update()
    return publish(stream.settings, stream.table, lines, PublishOptions(schema=SAMPLES.schemas[kind]))


def test_the_samples_become_one_row_for_each_event_and_everything_else_is_accounted_for(stream: Stream) -> None:
    assert send(stream, "stream") == 1090
    (first,) = stream.merge()
    assert counts(first.entry) == dict(read=1090, rejected=50, superseded=40, inserted=1000, updated=0, stale=0)
    assert first.entry.commit.late == 50
    assert {group.reason: group.count for group in list_rejected(stream.settings, stream.table)} == {"late": 50}
    stream.refresh()
    days = dict(stream.sql("SELECT event_id, rating_date FROM {t}"))

    assert send(stream, "update") == 250
    (second,) = stream.merge()
    assert counts(second.entry) == dict(read=250, rejected=0, superseded=0, inserted=50, updated=200, stale=0)
    stream.refresh()
    date_changes = [
        (days[event], day) for event, day in stream.sql("SELECT event_id, rating_date FROM {t}") if event in days
    ]
    assert Counter((before - after).days for before, after in date_changes) == {0: 980, 1: 20}
    assert stream.sql(f"SELECT count(*), count_if({IS_APPROVED}), count(device) FROM {{t}}") == [(1050, 1050, 250)]
    assert stream.sql("SELECT count(DISTINCT event_id), max(rating_date) <= current_date() FROM {t}") == [(1050, True)]

    before = stream.snapshot_of("event_id")
    assert sum(outcome.entry.commit.read for outcome in stream.replay()) == 1340
    assert stream.snapshot_of("event_id") == before
    (rollup,), (check,) = stream.table.rollups, stream.table.checks
    assert verify_rollup(stream.context, rollup).passed
    assert verify_keys(stream.context).passed
    assert verify_rows(stream.context, check).passed
    assert all(finding.passed for finding in audit(stream.ledger))
