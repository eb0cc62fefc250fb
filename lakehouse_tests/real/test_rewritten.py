"""Tables rewritten for a new declaration: the same rows and progress, with other types and partitions."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Measure, TextNumber, Time, Value, Version
from lakehouse.derived import refresh
from lakehouse.errors import TableError
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.rewrite_tables import rewrite_tables
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.rewrites import assert_exact, require_refusal, with_columns
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.tables.sales import ID, PIECES, PRICE, WIDE, narrow_sales, sale


@pytest.fixture(scope="module")
def history(spark, broker) -> Stream:
    stream = narrow_sales(spark, broker)
    stream.refresh()
    return stream


@pytest.fixture
def stream(history: Stream) -> Iterator[Stream]:
    """The table with its first declaration, which is restored after each test."""
    first_declaration = history.table
    yield history
    history.table = first_declaration


@pytest.mark.slow
def test_a_rewrite_that_would_change_a_value_leaves_the_tables_unchanged(stream: Stream) -> None:
    rows, first_declaration = stream.snapshot_of("id"), stream.table
    stream.table = with_columns(first_declaration, replace(PRICE, type="INT"))
    with pytest.raises(TableError, match="values of column price of .* for example '9.99'.*Declare price as DECIMAL"):
        rewrite_tables(stream.context)
    stream.table = first_declaration
    assert stream.snapshot_of("id") == rows
    assert stream.merge() == []


@pytest.mark.parametrize(
    ("column", "changes"),
    [
        (replace(ID, type="STRING"), {}),
        (replace(PIECES, type="DATE", written=Time(epoch="days")), {}),
        (replace(PIECES, type="STRING"), {"version": Version("pieces", nulls="oldest")}),
    ],
    ids=["a key", "no such meaning", "a version"],
)
def test_a_rewrite_refuses_a_change_of_meaning(stream: Stream, column: Column, changes) -> None:
    version = stream.ledger.version
    stream.table = with_columns(stream.table, column, **changes)
    with pytest.raises(TableError, match="in its declaration.*a table with another name"):
        rewrite_tables(stream.context)
    assert stream.ledger.version == version


def test_an_undeclared_widening_is_refused_with_the_argument_that_declares_it(stream: Stream) -> None:
    columns = [replace(column, widened_from=None) for column in WIDE.values()]
    stream.table = replace(stream.table, columns=columns)
    version = stream.ledger.version
    with pytest.raises(TableError, match="add widened_from='INT'"):
        stream.merge()
    assert stream.ledger.version == version
    text_table = replace(stream.table, columns=[ID, replace(PIECES, type="STRING"), PRICE])
    (refusal,) = [change.detail for change in plan_changes(stream.settings, text_table) if change.kind == "refuse"]
    assert "widened_from" not in refusal


def test_nothing_is_rewritten_before_the_change_feed_has_read_all_changes(stream: Stream) -> None:
    stream.send_and_merge(sale(3, 1, 1))
    version, first_declaration = stream.ledger.version, stream.table
    stream.table = with_columns(first_declaration, replace(PRICE, type="DOUBLE"))
    advice = "Undo the change of the declaration, run lakehouse merge"
    with pytest.raises(TableError, match=f"has not read all changes .*{advice}"):
        rewrite_tables(stream.context)
    assert stream.ledger.version == version
    stream.table = first_declaration
    stream.refresh()


@pytest.mark.invariant("1.3", "4.6")
@pytest.mark.slow
def test_the_command_named_by_the_refusal_changes_types_and_partitions(stream: Stream) -> None:
    stream.send_and_refresh(sale(3, 1, 1))
    progress, totals = stream.ledger.progress, stream.ledger.totals
    (rollup,) = stream.table.rollups
    measures = {**rollup.measures, "most": Measure("max(pieces)", "DECIMAL(9,1)", "Most pieces.")}
    stream.table = with_columns(
        stream.table,
        replace(PRICE, type="DOUBLE"),
        partition_by=Value("pieces"),
        rollups=[replace(rollup, by=["pieces"], measures=measures)],
    )
    assert f"lakehouse rewrite {stream.table.name}" in require_refusal(stream)

    assert {table.name.removeprefix(stream.table.name): table.detail for table in rewrite_tables(stream.context)} == {
        "": "price DOUBLE, partitioned by pieces",
        "_changes": "price_before DOUBLE, price_after DOUBLE",
    }
    assert stream.sql("SELECT id, pieces, price FROM {t} ORDER BY id") == [(1, 5, 9.99), (2, 7, 1.0), (3, 1, 1.0)]
    assert (stream.ledger.progress, stream.ledger.totals) == (progress, totals)
    merged_table = DeltaTable(stream.uri)
    assert merged_table.metadata().partition_columns == ["pieces"]
    assert merged_table.protocol().min_reader_version == 1
    assert rewrite_tables(stream.context) == []

    (outcome,) = stream.send_and_merge(sale(1, 8, 2.5))
    assert counts(outcome.entry) == dict(read=1, rejected=0, superseded=0, inserted=0, updated=1, stale=0)
    stream.refresh()
    query = "SELECT id, change, price_before, price_after, reconciled FROM {changes} WHERE id < 3 ORDER BY number, id"
    assert stream.sql(query) == [
        (1, "insert", None, 9.99, False),
        (2, "insert", None, 9.99, False),
        (2, "update", 9.99, 1.0, False),
        (1, "update", 9.99, 2.5, False),
    ]
    groups = stream.sql("SELECT pieces, CAST(most AS STRING), rows FROM {rollup} ORDER BY 1")
    assert groups == [(1, "1.0", 1), (7, "7.0", 1), (8, "8.0", 1)]
    assert_exact(stream, "id")


def test_a_rewrite_reads_texts_by_the_rules_of_their_column(spark, broker) -> None:
    price = Column("price", "STRING", doc="Price.")
    stream = Stream.create(spark, broker, columns=[ID, price], key=["id"], partition_by=None, base=None, rollups=[])
    stream.send_and_merge(b'{"id": 1, "price": "1,250.5"}', b'{"id": 2, "price": "n/a"}', b'{"id": 3, "price": "7"}')
    refresh.refresh_changes(stream.context)
    number = replace(price, type="DECIMAL(9,2)", written=TextNumber(thousands=","))
    stream.table = with_columns(stream.table, number)
    with pytest.raises(TableError, match=r"cannot be read as declared: 'n/a' \(wrong_type.*Nothing was written"):
        rewrite_tables(stream.context)
    stream.table = with_columns(stream.table, replace(number, null_values=["n/a"]))
    rewritten = rewrite_tables(stream.context)
    assert [table.detail for table in rewritten] == [
        "price DECIMAL(9,2)",
        "price_before DECIMAL(9,2), price_after DECIMAL(9,2)",
    ]
    values = [(1, Decimal("1250.50")), (2, None), (3, Decimal("7.00"))]
    assert sorted((row["id"], row["price"]) for row in rows_of(stream.settings, stream.table.name)) == values
    changes = rows_of(stream.settings, stream.table.changes_name)
    assert sorted((row["id"], row["price_after"]) for row in changes) == values
    stream.send_and_merge(b'{"id": 2, "price": "2,000"}')
    stream.assert_accounted()
