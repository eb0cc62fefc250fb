"""Rewrites of tables when something goes wrong in between, and those of other partitions."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Day, Measure, Month, Rollup, StreamTable
from lakehouse.errors import TableError
from lakehouse.kafka import create_topic
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.rewrite_tables import rewrite_tables
from lakehouse.operations.verify import verify_rollup
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.schema_change.apply import ask_nothing, ensure_table
from lakehouse.storage.schema_change.diff import Rewriting
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.tables.rewrites import assert_exact, otherwise, refused
from lakehouse_tests.helpers.tables.sales import PRICE, narrow_sales

pytestmark = pytest.mark.invariant(1, 3, 7, 10)


@pytest.fixture
def stream(spark, broker) -> Stream:
    made = narrow_sales(spark, broker)
    made.refresh()
    return made


def test_a_rewrite_that_was_cut_off_keeps_nobody_from_going_on_or_back(stream: Stream) -> None:
    declared = stream.table
    texts = otherwise(declared, replace(PRICE, type="STRING"))
    ensure_table(stream.spark, merged_layout(texts, stream.settings), ask_nothing, Rewriting())  # and no other table
    stream.table = texts
    stream.send(b'{"id": 3, "pieces": 1, "price": "1.5"}')
    stream.merge()
    with pytest.raises(TableError, match="price_before .*lakehouse rewrite"):
        stream.refresh()
    assert [each.name for each in rewrite_tables(stream.context)] == [declared.changes_name]
    stream.refresh()
    stream.table = declared
    assert [each.name for each in rewrite_tables(stream.context)] == [declared.name, declared.changes_name]
    stream.refresh()
    assert_exact(stream, "id")
    assert stream.sql("SELECT id, CAST(price AS STRING) FROM {t} ORDER BY id") == [
        (1, "9.99"),
        (2, "1.00"),
        (3, "1.50"),
    ]


def test_groups_that_become_one_by_another_type_are_computed_anew(stream: Stream) -> None:
    texts = otherwise(stream.table, replace(PRICE, type="STRING"))
    stream.table = texts
    rewrite_tables(stream.context)
    stream.send(b'{"id": 4, "pieces": 1, "price": "1.0"}')  # beside "1.00"
    stream.merge()
    stream.refresh()
    assert len(stream.sql("SELECT * FROM {rollup}")) == 4
    stream.table = otherwise(texts, PRICE)
    rewrite_tables(stream.context)
    stream.refresh()
    assert stream.sql("SELECT CAST(price AS STRING), rows FROM {rollup} ORDER BY 1") == [
        (None, 1),
        ("1.00", 2),
        ("9.99", 1),
    ]
    assert_exact(stream, "id")


def test_a_rollup_whose_measure_cannot_be_made_of_another_type_stays_as_it_is(stream: Stream) -> None:
    declared, (rollup,) = stream.table, stream.table.rollups
    rows = stream.sql("SELECT * FROM {rollup} ORDER BY 1")
    broken = {**rollup.measures, "most": Measure("max(1 / (pieces - 5))", "STRING", "Broken.")}
    stream.table = replace(declared, rollups=[replace(rollup, measures=broken)])
    assert ("most to STRING: all groups are recomputed") in str(plan_changes(stream.settings, stream.table))
    with pytest.raises(TableError, match="cannot be computed"):
        stream.refresh()
    assert stream.sql("SELECT * FROM {rollup} ORDER BY 1") == rows
    stream.table = declared
    stream.refresh()
    assert stream.sql("SELECT * FROM {rollup} ORDER BY 1") == rows
    assert verify_rollup(stream.context, rollup).passed


def test_a_column_that_has_the_name_of_a_partition_is_none_before_it_holds_its_periods(spark, broker) -> None:
    name = f"t_{uuid4().hex[:8]}"
    when = Column("sold_at", "TIMESTAMP", required=True, epoch="seconds", doc="UTC.")
    rollup = Rollup(f"{name}_all", ["sold_at"], {"rows": Measure("count(*)", "BIGINT", "Sales.")}, "By time.")
    table = StreamTable(name, name, "Sales.", [when], ["sold_at"], partitions=1, rollups=[rollup])
    stream = Stream(spark, broker, table)
    create_topic(broker, table)
    stream.send(b'{"sold_at": 0}', b'{"sold_at": 5000000}')
    stream.merge()
    month = Column("sold_month", "DATE", sql="CAST(sold_at AS DATE)", doc="A day.")
    stream.table = replace(table, columns=[when, month])
    stream.send(b'{"sold_at": 9000000}')
    stream.merge()
    stream.table = replace(table, partition_by=Month("sold_at"))
    with pytest.raises(TableError, match="1 values of column sold_month"):
        rewrite_tables(stream.context)
    spark.sql(f"UPDATE delta.`{stream.uri}` SET sold_month = NULL").collect()
    rewrite_tables(stream.context)
    assert stream.sql("SELECT count(*) FROM {t} WHERE sold_month IS NULL") == [(0,)]
    stream.send(b'{"sold_at": 0}')
    stream.merge()
    assert stream.sql("SELECT count(*), count(DISTINCT sold_at) FROM {t}") == [(3, 3)]


def test_rows_are_parted_by_a_column_that_they_lack(stream: Stream) -> None:
    when = Column("sold_at", "TIMESTAMP", epoch="seconds", doc="UTC.")
    stream.table = replace(stream.table, columns=[*stream.table.columns, when], partition_by=Day("sold_at"))
    rewrite_tables(stream.context)
    stream.send(b'{"id": 1, "pieces": 1, "price": 1, "sold_at": 0}')
    stream.merge()
    stream.refresh()
    told = "SELECT id, CAST(sold_day AS STRING) FROM {t} ORDER BY id"
    assert stream.sql(told) == [(1, "1970-01-01"), (2, None), (3, None)]
    assert_exact(stream, "id")


def two_days(spark, broker) -> Stream:
    made = Stream.create(spark, broker, base=None, references=())
    made.send(record(time=hour(0)), record(time=hour(30), temperature_2m=1.5))
    made.merge()
    made.refresh()
    return made


def test_rows_parted_by_another_period_lose_the_column_of_the_former_one_and_are_parted_again_after_a_restore(
    spark, broker
) -> None:
    stream = two_days(spark, broker)
    before, values = (
        stream.ledger.version,
        "SELECT latitude, observed_at, temperature_2m, _record, _kept FROM {t} ORDER BY 2",
    )
    rows, by_month = stream.sql(values), stream.table
    (rollup,) = stream.table.rollups
    by_day = replace(rollup, by=["latitude", "longitude", "observed_day"])
    stream.table = replace(stream.table, partition_by=Day("observed_at"), rollups=[by_day])
    assert f"lakehouse rewrite {stream.table.name}" in refused(stream)

    declared = stream.table
    for _ in range(2):
        stream.table = declared
        assert [each.detail for each in rewrite_tables(stream.context)] == ["partitioned by observed_day"]
        assert stream.sql(values) == rows
        opened = DeltaTable(stream.uri)
        assert opened.metadata().partition_columns == ["observed_day"]
        assert "observed_month" not in [field.name for field in opened.schema().fields]
        days = {Path(file).relative_to(stream.uri).parts[0] for file in opened.file_uris()}
        assert days == {"observed_day=2023-01-01", "observed_day=2023-01-02"}
        spark.sql(f"RESTORE delta.`{stream.uri}` TO VERSION AS OF {before}").collect()
        assert "lakehouse rewrite" in refused(stream)
        stream.table = by_month
        assert stream.merge() == []
        stream.refresh()
    stream.table = declared
    rewrite_tables(stream.context)
    stream.send(record(time=hour(0), temperature_2m=3.0))
    stream.merge()
    stream.refresh()
    assert stream.sql("SELECT temperature_2m FROM {t} ORDER BY observed_at") == [(3.0,), (1.5,)]
    assert len(stream.sql("SELECT * FROM {rollup}")) == 2
    assert_exact(stream, "observed_at")
