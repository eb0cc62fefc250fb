"""Columns with wider types: the same rows and progress, and derived tables lose no change."""

from collections.abc import Iterator

import polars
import pytest
from deltalake import DeltaTable

from lakehouse.derived.refresh import refresh_and_retry
from lakehouse.errors import NotConsumedError
from lakehouse.ledger.audit import audit
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse.query import query
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.sales import narrow_sales, sale, with_wide_columns


@pytest.fixture
def stream(spark, broker) -> Stream:
    return narrow_sales(spark, broker)


@pytest.fixture
def writer(request: pytest.FixtureRequest) -> Iterator[None]:
    with by_spark(request.param):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("writer", [False, True], indirect=True, ids=["few rows", "by Spark"])
def test_a_column_is_widened_once_after_derived_tables_have_read_all_changes(stream: Stream, writer) -> None:
    before, totals = stream.snapshot_of("id"), stream.ledger.totals
    stream.table = with_wide_columns(stream.table)
    kinds = {
        (change.table.removeprefix(stream.table.name), change.kind)
        for change in plan_changes(stream.settings, stream.table)
    }
    assert {("", "widen column"), ("_changes", "widen column"), ("_by_price", "widen column")} <= kinds

    stream.send(sale(1, 3_000_000_000, 12345678.1234), sale(5_000_000_000, 1, 9.99))
    with pytest.raises(NotConsumedError, match=f"before {stream.table.name}.* has read its present rows"):
        stream.merge()
    (outcome,) = refresh_and_retry(stream.context, stream.merge)
    assert counts(outcome.entry) == dict(read=2, rejected=0, superseded=0, inserted=1, updated=1, stale=0)
    stream.refresh()

    assert stream.sql("SELECT id, pieces, CAST(price AS STRING) FROM {t} ORDER BY id") == [
        (1, 3_000_000_000, "12345678.1234"),
        (2, 7, "1.0000"),
        (3, None, None),
        (5_000_000_000, 1, "9.9900"),
    ]
    assert stream.snapshot_of("id")[1:3] == before[1:3]
    assert outcome.entry.commit.totals_before == totals
    feed_query = "SELECT id, change, pieces_before, pieces_after, reconciled FROM {changes} ORDER BY number, id"
    assert stream.sql(feed_query) == [
        (1, "insert", None, 5, False),
        (2, "insert", None, 6, False),
        (3, "insert", None, None, False),
        (2, "update", 6, 7, False),
        (1, "update", 5, 3_000_000_000, False),
        (5_000_000_000, "insert", None, 1, False),
    ]
    assert_correct_and_unchanged_by_a_replay(stream)


def assert_correct_and_unchanged_by_a_replay(stream: Stream) -> None:
    (rollup,) = stream.table.rollups
    assert verify_rollup(stream.context, rollup).passed
    assert verify_keys(stream.context).passed
    assert all(finding.passed for finding in audit(stream.ledger))
    assert plan_changes(stream.settings, stream.table) == []
    rows = stream.snapshot_of("id")
    stream.replay()
    assert stream.snapshot_of("id") == rows


@pytest.mark.slow
def test_every_reader_opens_a_widened_table(stream: Stream) -> None:
    stream.table = with_wide_columns(stream.table)
    refresh_and_retry(stream.context, stream.merge)
    delta_table = DeltaTable(stream.uri)
    assert {field.name: str(field.type) for field in delta_table.schema().fields}["pieces"] == 'PrimitiveType("long")'
    assert delta_table.protocol().min_reader_version == 1
    result = query(stream.settings, f"SELECT sum(pieces) FROM {stream.table.name}", [stream.table.name])
    assert [int(row[0]) for row in result.rows] == [12]
    rows = polars.read_delta(stream.uri).sort("id").select("id", "pieces", "price")
    assert rows.rows() == stream.sql("SELECT id, pieces, price FROM {t} ORDER BY id")
    assert rows.schema["pieces"] == polars.Int64()
    comments = {field.name: field.metadata.get("comment") for field in delta_table.schema().fields}
    assert comments["pieces"] == "How many."
