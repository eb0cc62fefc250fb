"""A custom format that a project declares: its records are published, merged and rejected like any other."""

from uuid import uuid4

import pytest

from lakehouse.declaration import Column, StreamTable
from lakehouse.kafka import publish
from lakehouse.operations.rejections import list_rejected
from lakehouse.settings import Settings
from lakehouse_tests.helpers.barred_format import Barred
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.rows import rows_of

LINES = [b'{"id": 1, "city": "Oslo", "visits": 3}', b'{"id": 2, "city": "Rome"}']


def visits() -> StreamTable:
    name = f"visits_{uuid4().hex[:8]}"
    columns = [
        Column("id", "INT", "Which.", required=True),
        Column("city", "STRING", "Where."),
        Column("visits", "INT", "How often.", between=(0, 100)),
    ]
    return StreamTable(name, name, "Visits.", columns, ["id"], format=Barred(("id", "city", "visits")))


def stored_rows(stream: Stream) -> list[tuple[int, str | None, int | None]]:
    rows = rows_of(stream.settings, stream.table.name)
    return sorted((row["id"], row["city"], row["visits"]) for row in rows)


@pytest.mark.slow
def test_records_of_a_custom_format_are_published_merged_and_rejected_with_reasons(spark, broker: Settings) -> None:
    stream = Stream.of(spark, broker, visits())
    assert publish(broker, stream.table, LINES) == 2
    (outcome,) = stream.send_and_merge(b"3|Bonn|101", b"4|Bern", None)
    assert counts(outcome.entry) == dict(read=5, rejected=3, superseded=0, inserted=2, updated=0, stale=0)
    assert stored_rows(stream) == [(1, "Oslo", 3), (2, "Rome", None)]
    reasons = {group.reason: group.count for group in list_rejected(broker, stream.table)}
    assert reasons == {"out_of_range": 1, "truncated": 1, "tombstone": 1}
    assert publish(broker, stream.table, [b'{"id": 2, "city": "Rom", "visits": 7}']) == 1
    stream.merge()
    newest = [(1, "Oslo", 3), (2, "Rom", 7)]
    assert stored_rows(stream) == newest
    stream.replay()
    assert stored_rows(stream) == newest
    stream.assert_accounted()
