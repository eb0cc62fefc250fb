"""A declaration that changes: told before it is made by the next run, and by the history; no row is lost."""

from dataclasses import replace

import pytest

from lakehouse.declaration import Check, Column, StreamTable
from lakehouse.errors import TableError
from lakehouse.operations.evolution import redeclared
from lakehouse.operations.planned_changes import plan_changes
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.tables.sales import ID, PIECES, PRICE, narrow_sales, sale

pytestmark = [pytest.mark.invariant(1, 3, 10), pytest.mark.slow]  # each test goes on from the one before it

NOTE = Column("note", "STRING", doc="What was said.")
AMOUNT = replace(PIECES, source="amount", formerly="pieces")


def with_columns(table: StreamTable, *columns: Column) -> StreamTable:
    return replace(table, columns=columns)


@pytest.fixture(scope="module")
def stream(spark, broker) -> Stream:
    made = narrow_sales(spark, broker)
    made.refresh()
    return made


def told(stream: Stream) -> list[tuple[str, str]]:
    """What plan says of the merged table."""
    changes = plan_changes(stream.settings, stream.table)
    return [(each.kind, each.detail) for each in changes if each.table == stream.table.name]


CHANGES = {
    "a default": (
        lambda table: with_columns(table, ID, replace(PIECES, default=1), PRICE),
        [("declare", "column pieces: default was not set, is 1")],
        (b'{"id": 10, "price": 1}', (10, 1)),
    ),
    "a check": (
        lambda table: replace(table, checks=[Check("few", "pieces < 100", doc="Few.")]),
        [("declare", "check few is new")],
        (sale(11, 2, 1), (11, 2)),
    ),
    "a column that is added": (
        lambda table: with_columns(table, *table.columns, NOTE),
        [("add column", "note STRING; NULL in existing rows")],
        (b'{"id": 12, "pieces": 3, "note": "x"}', (12, 3)),
    ),
    "a column that is left out": (
        lambda table: with_columns(table, *table.columns[:3]),
        [
            (
                "declare",
                "column note is no longer declared: its values stay until newer records replace their rows",
            )
        ],
        (b'{"id": 13, "pieces": 4, "note": "y"}', (13, 4)),
    ),
    "a field that was renamed": (
        lambda table: with_columns(table, ID, replace(AMOUNT, default=1), PRICE),
        [
            ("declare", "column pieces: formerly was not set, is 'pieces'"),
            ("declare", "column pieces: takes was 'pieces', is 'amount'"),
        ],
        (b'{"id": 14, "amount": 5, "price": 2}', (14, 5)),
    ),
}


@pytest.mark.parametrize(("change", "expected", "sent"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_told_then_made_by_the_next_run_and_told_by_the_history(
    stream: Stream, change, expected, sent
) -> None:
    before, rows = len(redeclared(stream.settings, stream.table)), stream.sql("SELECT id, pieces FROM {t} ORDER BY id")
    stream.table = change(stream.table)
    assert told(stream) == expected
    value, row = sent
    stream.send(value)
    stream.merge()
    assert stream.sql("SELECT id, pieces FROM {t} ORDER BY id") == [*rows, row]
    assert told(stream) == []
    later = redeclared(stream.settings, stream.table)[before:]
    facts = {fact for each in later for fact in each.changes}
    assert facts == {fact if kind == "declare" else "column note is new" for kind, fact in expected}
    rows = stream.snapshot_of("id")
    stream.replay()
    assert stream.snapshot_of("id") == rows


def test_a_column_of_another_name_that_takes_the_same_is_refused_since_the_stored_name_stays(stream: Stream) -> None:
    (rollup,) = stream.table.rollups
    rows = replace(rollup, measures={"rows": rollup.measures["rows"]})
    declared, version = replace(stream.table, checks=[], rollups=[rows]), stream.ledger.version
    for many in (replace(AMOUNT, name="many", default=1), replace(PIECES, name="many", formerly="amount")):
        stream.table = with_columns(declared, ID, many, PRICE)
        assert [kind for kind, detail in told(stream) if "Keep the name pieces" in detail] == ["refuse"]
        with pytest.raises(TableError, match="column pieces, which is no longer declared"):
            stream.merge()
    assert stream.ledger.version == version
    stream.table = with_columns(declared, ID, replace(AMOUNT, name="many", default=1), PRICE, declared.columns[1])
    stream.send(b'{"id": 15, "amount": 6}')
    stream.merge()
    stream.table = with_columns(declared, ID, replace(AMOUNT, name="many", default=1), PRICE)
    stream.merge()
    assert stream.sql("SELECT pieces, many FROM {t} WHERE id = 15") == [(6, 6)]


def test_another_topic_is_told_with_what_to_do(stream: Stream) -> None:
    merged = stream.table
    try:
        stream.table = replace(merged, topic="elsewhere")
        (refused,) = (detail for kind, detail in told(stream) if kind == "refuse")
    finally:
        stream.table = merged
    assert f"the table has records of topic {merged.topic}, but the declared topic is elsewhere" in refused
    assert f"Declare {merged.topic} again, or a table of another name" in refused
