"""Rewrites of tables that are interrupted or fail, and rewrites to other partitions."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.declaration import Column, Computed, Day, Measure, Month, Rollup, StreamTable, Time, Topic
from lakehouse.errors import TableError
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.rewrite_tables import rewrite_tables
from lakehouse.operations.verify import verify_rollup
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.schema_change import ensure_table, require_nothing
from lakehouse.storage.schema_diff import RewriteScope
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.tables.rewrites import assert_exact, require_refusal, with_columns
from lakehouse_tests.helpers.tables.sales import PRICE, narrow_sales


@pytest.fixture
def stream(spark, broker) -> Stream:
    new_stream = narrow_sales(spark, broker)
    new_stream.refresh()
    return new_stream


@pytest.mark.invariant("1.17")
def test_after_an_interrupted_rewrite_the_new_and_the_old_declaration_work(stream: Stream) -> None:
    table = stream.table
    text_table = with_columns(table, replace(PRICE, type="STRING"))
    # an interrupted rewrite: only the merged table has the new type
    ensure_table(stream.spark, merged_layout(text_table, stream.settings), require_nothing, RewriteScope())
    stream.table = text_table
    stream.send_and_merge(b'{"id": 3, "pieces": 1, "price": "1.5"}')
    with pytest.raises(TableError, match="price_before .*lakehouse rewrite"):
        stream.refresh()
    assert [rewrite.name for rewrite in rewrite_tables(stream.context)] == [table.changes_name]
    stream.refresh()
    stream.table = table
    assert [rewrite.name for rewrite in rewrite_tables(stream.context)] == [table.name, table.changes_name]
    stream.refresh()
    assert_exact(stream, "id")
    assert stream.sql("SELECT id, CAST(price AS STRING) FROM {t} ORDER BY id") == [
        (1, "9.99"),
        (2, "1.00"),
        (3, "1.50"),
    ]


def test_a_rewrite_names_a_version_that_it_undid_and_no_upkeep(stream: Stream) -> None:
    layout = merged_layout(with_columns(stream.table, replace(PRICE, type="STRING")), stream.settings)
    rows = DeltaTable(stream.uri).to_pyarrow_table()
    scope = RewriteScope()

    def append() -> None:
        write_deltalake(stream.uri, rows.slice(0, 1), mode="append")

    with pytest.raises(TableError, match=r"was rewritten while another program wrote version (\d+) .*--version \1"):
        ensure_table(stream.spark, layout, append, scope)
    assert DeltaTable(stream.uri).to_pyarrow_table().num_rows == rows.num_rows

    def compact() -> None:
        DeltaTable(stream.uri).optimize.compact()

    append()
    layout = merged_layout(stream.table, stream.settings)
    ensure_table(stream.spark, layout, compact, scope)
    assert [info["operation"] for info in DeltaTable(stream.uri).history(3)][1:] == ["WRITE", "OPTIMIZE"]
    assert DeltaTable(stream.uri).to_pyarrow_table().num_rows == rows.num_rows + 1


@pytest.mark.invariant("10.10")
def test_groups_that_another_type_unites_are_computed_again(stream: Stream) -> None:
    text_table = with_columns(stream.table, replace(PRICE, type="STRING"))
    stream.table = text_table
    rewrite_tables(stream.context)
    stream.send(b'{"id": 4, "pieces": 1, "price": "1.0"}')  # as text a different group than "1.00"
    stream.merge()
    stream.refresh()
    assert len(stream.sql("SELECT * FROM {rollup}")) == 4
    stream.table = with_columns(text_table, PRICE)
    rewrite_tables(stream.context)
    stream.refresh()
    assert stream.sql("SELECT CAST(price AS STRING), rows FROM {rollup} ORDER BY 1") == [
        (None, 1),
        ("1.00", 2),
        ("9.99", 1),
    ]
    assert_exact(stream, "id")


def test_a_rollup_whose_changed_measure_cannot_be_computed_stays_unchanged(stream: Stream) -> None:
    table, (rollup,) = stream.table, stream.table.rollups
    rows = stream.sql("SELECT * FROM {rollup} ORDER BY 1")
    broken_measures = {**rollup.measures, "most": Measure("max(1 / (pieces - 5))", "STRING", "Broken.")}
    stream.table = replace(table, rollups=[replace(rollup, measures=broken_measures)])
    assert ("most to STRING: all groups are recomputed") in str(plan_changes(stream.settings, stream.table))
    with pytest.raises(TableError, match="cannot be computed"):
        stream.refresh()
    assert stream.sql("SELECT * FROM {rollup} ORDER BY 1") == rows
    stream.table = table
    stream.refresh()
    assert stream.sql("SELECT * FROM {rollup} ORDER BY 1") == rows
    assert verify_rollup(stream.context, rollup).passed


def test_a_column_with_the_name_of_a_partition_must_hold_its_periods(spark, broker) -> None:
    name = f"t_{uuid4().hex[:8]}"
    time_column = Column("sold_at", "TIMESTAMP", required=True, written=Time(epoch="seconds"), doc="UTC.")
    rollup = Rollup(f"{name}_all", ["sold_at"], {"rows": Measure("count(*)", "BIGINT", "Sales.")}, "By time.")
    table = StreamTable(
        name, source=Topic(name, partitions=1), doc="Sales.", columns=[time_column], key=["sold_at"], rollups=[rollup]
    )
    stream = Stream.of(spark, broker, table)
    stream.send_and_merge(b'{"sold_at": 0}', b'{"sold_at": 5000000}')
    month_column = Computed("sold_month", "DATE", sql="CAST(sold_at AS DATE)", doc="A day.")
    stream.table = replace(table, columns=[time_column, month_column])
    stream.send_and_merge(b'{"sold_at": 9000000}')
    stream.table = replace(table, partition_by=Month("sold_at"))
    with pytest.raises(TableError, match="1 values of column sold_month"):
        rewrite_tables(stream.context)
    spark.sql(f"UPDATE delta.`{stream.uri}` SET sold_month = NULL").collect()
    rewrite_tables(stream.context)
    assert stream.sql("SELECT count(*) FROM {t} WHERE sold_month IS NULL") == [(0,)]
    stream.send_and_merge(b'{"sold_at": 0}')
    assert stream.sql("SELECT count(*), count(DISTINCT sold_at) FROM {t}") == [(3, 3)]


def test_rows_without_the_new_partition_column_are_in_the_null_partition(stream: Stream) -> None:
    time_column = Column("sold_at", "TIMESTAMP", written=Time(epoch="seconds"), doc="UTC.")
    stream.table = replace(stream.table, columns=[*stream.table.columns, time_column], partition_by=Day("sold_at"))
    rewrite_tables(stream.context)
    stream.send_and_refresh(b'{"id": 1, "pieces": 1, "price": 1, "sold_at": 0}')
    query = "SELECT id, CAST(sold_day AS STRING) FROM {t} ORDER BY id"
    assert stream.sql(query) == [(1, "1970-01-01"), (2, None), (3, None)]
    assert_exact(stream, "id")


def create_two_days(spark, broker) -> Stream:
    new_stream = Stream.create(spark, broker, base=None, references=())
    new_stream.send_and_refresh(record(time=hour(0)), record(time=hour(30), temperature_2m=1.5))
    return new_stream


@pytest.mark.invariant("1.6")
def test_a_rewrite_to_another_period_drops_the_old_column_and_works_again_after_a_restore(spark, broker) -> None:
    stream = create_two_days(spark, broker)
    version_before = stream.ledger.version
    query = "SELECT latitude, observed_at, temperature_2m, _record, _kept FROM {t} ORDER BY 2"
    rows, monthly_table = stream.sql(query), stream.table
    (rollup,) = stream.table.rollups
    daily_rollup = replace(rollup, by=["latitude", "longitude", "observed_day"])
    stream.table = replace(stream.table, partition_by=Day("observed_at"), rollups=[daily_rollup])
    assert f"lakehouse rewrite {stream.table.name}" in require_refusal(stream)

    daily_table = stream.table
    for _ in range(2):
        stream.table = daily_table
        assert [rewrite.detail for rewrite in rewrite_tables(stream.context)] == ["partitioned by observed_day"]
        assert stream.sql(query) == rows
        delta_table = DeltaTable(stream.uri)
        assert delta_table.metadata().partition_columns == ["observed_day"]
        assert "observed_month" not in [field.name for field in delta_table.schema().fields]
        days = {Path(file).relative_to(stream.uri).parts[0] for file in delta_table.file_uris()}
        assert days == {"observed_day=2023-01-01", "observed_day=2023-01-02"}
        spark.sql(f"RESTORE delta.`{stream.uri}` TO VERSION AS OF {version_before}").collect()
        assert "lakehouse rewrite" in require_refusal(stream)
        stream.table = monthly_table
        assert stream.merge() == []
        stream.refresh()
    stream.table = daily_table
    rewrite_tables(stream.context)
    stream.send_and_refresh(record(time=hour(0), temperature_2m=3.0))
    assert stream.sql("SELECT temperature_2m FROM {t} ORDER BY observed_at") == [(3.0,), (1.5,)]
    assert len(stream.sql("SELECT * FROM {rollup}")) == 2
    assert_exact(stream, "observed_at")
