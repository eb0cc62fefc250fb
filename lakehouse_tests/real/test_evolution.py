"""A changed declaration: the plan shows it, the next run applies it, the history lists it; no row is lost."""

from dataclasses import replace

import pytest

from lakehouse.declaration import Check, Column, Computed, StreamTable
from lakehouse.errors import TableError
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.status import list_redeclarations
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.tables.sales import ID, PIECES, PRICE, narrow_sales, sale
from lakehouse_tests.helpers.tables.tables import redeclare

pytestmark = pytest.mark.slow  # each test continues from the previous one

NOTE = Column("note", "STRING", doc="A remark.")
AMOUNT = replace(PIECES, source="amount", formerly="pieces")


def with_columns(table: StreamTable, *columns: Column | Computed) -> StreamTable:
    return replace(table, columns=columns)


@pytest.fixture(scope="module")
def stream(spark, broker) -> Stream:
    stream = narrow_sales(spark, broker)
    stream.refresh()
    return stream


def planned_changes(stream: Stream) -> list[tuple[str, str]]:
    """The planned changes of the merged table: kind and detail."""
    changes = plan_changes(stream.settings, stream.table)
    return [(change.kind, change.detail) for change in changes if change.table == stream.table.name]


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


@pytest.mark.parametrize(("change", "expected", "record_and_row"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_planned_then_applied_by_the_next_run_and_listed_in_the_history(
    stream: Stream, change, expected, record_and_row
) -> None:
    entries_before = len(list_redeclarations(stream.settings, stream.table))
    rows = stream.sql("SELECT id, pieces FROM {t} ORDER BY id")
    stream.table = change(stream.table)
    assert planned_changes(stream) == expected
    value, row = record_and_row
    stream.send_and_merge(value)
    assert stream.sql("SELECT id, pieces FROM {t} ORDER BY id") == [*rows, row]
    assert planned_changes(stream) == []
    new_entries = list_redeclarations(stream.settings, stream.table)[entries_before:]
    details = {detail for entry in new_entries for detail in entry.changes}
    assert details == {detail if kind == "declare" else "column note is new" for kind, detail in expected}
    rows = stream.snapshot_of("id")
    stream.replay()
    assert stream.snapshot_of("id") == rows


def test_a_renamed_column_with_the_same_source_is_refused(stream: Stream) -> None:
    (rollup,) = stream.table.rollups
    smaller_rollup = replace(rollup, measures={"rows": rollup.measures["rows"]})
    table, version = replace(stream.table, checks=[], rollups=[smaller_rollup]), stream.ledger.version
    for renamed_column in (replace(AMOUNT, name="many", default=1), replace(PIECES, name="many", formerly="amount")):
        stream.table = with_columns(table, ID, renamed_column, PRICE)
        assert [kind for kind, detail in planned_changes(stream) if "Keep the name pieces" in detail] == ["refuse"]
        with pytest.raises(TableError, match="column pieces, which is no longer declared"):
            stream.merge()
    assert stream.ledger.version == version
    stream.table = with_columns(table, ID, replace(AMOUNT, name="many", default=1), PRICE, table.columns[1])
    stream.send_and_merge(b'{"id": 15, "amount": 6}')
    stream.table = with_columns(table, ID, replace(AMOUNT, name="many", default=1), PRICE)
    stream.merge()
    assert stream.sql("SELECT pieces, many FROM {t} WHERE id = 15") == [(6, 6)]


def test_another_topic_is_refused_with_advice(stream: Stream) -> None:
    table = stream.table
    try:
        stream.table = redeclare(table, topic="elsewhere")
        (refusal,) = (detail for kind, detail in planned_changes(stream) if kind == "refuse")
    finally:
        stream.table = table
    assert f"the table has records of {table.topic}, but the declaration has topic elsewhere" in refusal
    assert (
        f"If {table.topic} got a new name and still exists, read both: source=Topics(['{table.topic}', 'elsewhere'])"
        in refusal
    )
    assert f"Or declare {table.topic} again, or a table of another name" in refusal
