"""Columns that are given wider types: the same rows and progress, and nothing that derives from them loses any."""

from collections.abc import Iterator
from dataclasses import replace

import polars
import pytest
from deltalake import DeltaTable

from lakehouse.derived.refresh import caught_up
from lakehouse.errors import NotConsumedError, TableError
from lakehouse.ledger.audit import audit
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse.query import query
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.sales import ID, PIECES, PRICE, WIDE, narrow_sales, sale, widened

pytestmark = pytest.mark.invariant(1, 7, 10, 13)


@pytest.fixture
def stream(spark, broker) -> Stream:
    return narrow_sales(spark, broker)


@pytest.fixture
def by_whom(request: pytest.FixtureRequest) -> Iterator[None]:
    with by_spark(request.param):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("by_whom", [False, True], indirect=True, ids=["few rows", "by Spark"])
def test_a_wider_type_is_given_once_after_what_derives_from_the_rows_has_read_them(stream: Stream, by_whom) -> None:
    before, totals = stream.snapshot_of("id"), stream.ledger.totals
    stream.table = widened(stream.table)
    kinds = {
        (each.table.removeprefix(stream.table.name), each.kind) for each in plan_changes(stream.settings, stream.table)
    }
    assert {("", "widen column"), ("_changes", "widen column"), ("_by_price", "widen column")} <= kinds

    stream.send(sale(1, 3_000_000_000, 12345678.1234), sale(5_000_000_000, 1, 9.99))
    with pytest.raises(NotConsumedError, match=f"before {stream.table.name}.* has read its present rows"):
        stream.merge()
    (outcome,) = caught_up(stream.context, stream.merge)
    assert counts(outcome.entry) == dict(read=2, rejected=0, duplicate=0, inserted=1, updated=1, stale=0)
    stream.refresh()

    assert stream.sql("SELECT id, pieces, CAST(price AS STRING) FROM {t} ORDER BY id") == [
        (1, 3_000_000_000, "12345678.1234"),
        (2, 7, "1.0000"),
        (3, None, None),
        (5_000_000_000, 1, "9.9900"),
    ]
    assert stream.snapshot_of("id")[1:3] == before[1:3]
    assert outcome.entry.commit.totals_before == totals
    feed = "SELECT id, change, pieces_before, pieces_after, reconciled FROM {changes} ORDER BY number, id"
    assert stream.sql(feed) == [
        (1, "insert", None, 5, False),
        (2, "insert", None, 6, False),
        (3, "insert", None, None, False),
        (2, "update", 6, 7, False),
        (1, "update", 5, 3_000_000_000, False),
        (5_000_000_000, "insert", None, 1, False),
    ]
    assert_all_is_right_and_a_replay_changes_nothing(stream)


def assert_all_is_right_and_a_replay_changes_nothing(stream: Stream) -> None:
    (rollup,) = stream.table.rollups
    assert verify_rollup(stream.context, rollup).passed
    assert verify_keys(stream.context).passed
    assert all(finding.passed for finding in audit(stream.ledger))
    assert plan_changes(stream.settings, stream.table) == []
    rows = stream.snapshot_of("id")
    stream.replay()
    assert stream.snapshot_of("id") == rows


@pytest.mark.slow
def test_every_reader_opens_a_table_that_was_widened(stream: Stream) -> None:
    stream.table = widened(stream.table)
    caught_up(stream.context, stream.merge)
    opened = DeltaTable(stream.uri)
    assert {field.name: str(field.type) for field in opened.schema().fields}["pieces"] == 'PrimitiveType("long")'
    assert opened.protocol().min_reader_version == 1
    told = query(stream.settings, f"SELECT sum(pieces) FROM {stream.table.name}", [stream.table.name])
    assert [int(row[0]) for row in told.rows] == [12]
    rows = polars.read_delta(stream.uri).sort("id").select("id", "pieces", "price")
    assert rows.rows() == stream.sql("SELECT id, pieces, price FROM {t} ORDER BY id")
    assert rows.schema["pieces"] == polars.Int64()
    comments = {field.name: field.metadata.get("comment") for field in opened.schema().fields}
    assert comments["pieces"] == "How many."


def test_a_type_that_nobody_says_is_widened_is_refused_with_the_word_that_does(stream: Stream) -> None:
    said = [replace(column, widened_from=None) for column in WIDE.values()]
    stream.table = replace(stream.table, columns=said)
    version = stream.ledger.version
    with pytest.raises(TableError, match="add widened_from='INT'"):
        stream.merge()
    assert stream.ledger.version == version
    narrower = replace(stream.table, columns=[ID, replace(PIECES, type="STRING"), PRICE])
    (told,) = [each.detail for each in plan_changes(stream.settings, narrower) if each.kind == "refuse"]
    assert "widened_from" not in told
