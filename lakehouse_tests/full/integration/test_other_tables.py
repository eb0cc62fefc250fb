"""Tables that differ from the temperatures in shape: everything follows from the declaration."""

import json
from dataclasses import replace
from uuid import uuid4

import pytest

from lakehouse.declaration import Column, Measure, Month, Rollup, StreamTable, Time
from lakehouse.kafka import create_topic, publish
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream, counts

HOSTILE_NAME = 'O\'Brien`s \\ "shop"; DROP TABLE prices; -- \u2028${x}'


def prices() -> StreamTable:
    name = f"prices_{uuid4().hex[:8]}"
    columns = [
        Column("shop", "STRING", required=True, doc="Name of the shop."),
        Column("product", "BIGINT", required=True, doc="Number of the product."),
        Column("price", "DECIMAL(9,2)", between=(0, 100_000), doc="Euro; it's NULL if it is not for sale."),
        Column("stock", "INT", doc="Pieces."),
        Column("is_new", "BOOLEAN", doc="New in the shop."),
        Column("sold_on", "DATE", written=Time("%d.%m.%Y"), doc="Day of the last sale."),
        Column("priced_at", "TIMESTAMP", written=Time("%Y-%m-%dT%H:%M:%S"), doc="When the price was set, UTC."),
    ]
    measures = {"products": Measure("count(price)", "BIGINT", "Products for sale.")}
    by_shop = Rollup(f"{name}_by_shop", by=["shop"], measures=measures, doc="Prices by shop.")
    return StreamTable(name, name, "Prices.", columns, key=["shop", "product"], rollups=[by_shop])


def line(**fields: object) -> bytes:
    return json.dumps({"shop": HOSTILE_NAME, "product": 7, "price": 1.005, **fields}).encode()


@pytest.fixture
def stream(spark, broker):
    stream = Stream(spark, broker, prices())
    create_topic(broker, stream.table)
    return stream


@pytest.mark.invariant("13.1", "13.2", "13.5")
def test_text_keys_and_every_type_are_merged_replayed_and_derived(stream):
    lines = [
        line(stock=3, is_new=True, sold_on="29.02.2024", priced_at="2024-03-01T10:00:01"),
        line(product=8, price=None),
        line(shop="", stock=2.0),
    ]
    assert publish(stream.settings, stream.table, [*lines, line(stock=2**31), line(is_new=1)]) == 5
    stream.merge()
    rows = stream.sql(
        "SELECT shop, product, CAST(price AS STRING), stock, is_new, CAST(sold_on AS STRING), CAST(priced_at AS STRING)"
        " FROM {t} ORDER BY shop, product"
    )
    assert rows == [
        ("", 7, "1.01", 2, None, None, None),
        (HOSTILE_NAME, 7, "1.01", 3, True, "2024-02-29", "2024-03-01 10:00:01"),
        (HOSTILE_NAME, 8, None, None, None, None, None),
    ]
    assert sorted(reason for _, _, reason in stream.rejected()) == ["out_of_range", "wrong_type"]
    rows_before = stream.snapshot_of("shop, product")
    stream.replay()
    assert stream.snapshot_of("shop, product") == rows_before
    stream.refresh()
    assert dict(stream.sql("SELECT * FROM {rollup}")) == {"": 1, HOSTILE_NAME: 1}
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    assert verify_keys(stream.context).passed
    stream.assert_accounted()


@pytest.mark.invariant("4.6")
def test_a_row_moves_if_its_partition_is_not_part_of_the_key(stream):
    by_month = replace(stream.table.rollups[0], by=["shop", "priced_month"])
    stream.table = replace(stream.table, partition_by=Month("priced_at"), rollups=[by_month])
    for month in (1, 2, 3):
        stream.send(line(priced_at=f"2024-{month:02d}-01T00:00:00"))
        (outcome,) = stream.merge()
    assert counts(outcome.entry)["updated"] == 1
    assert stream.sql("SELECT CAST(priced_month AS STRING) FROM {t}") == [("2024-03-01",)]
    stream.refresh()
    stream.send(line(priced_at=None))
    stream.merge()
    stream.refresh()
    assert stream.sql("SELECT priced_month FROM {t}") == [(None,)]
    assert stream.sql("SELECT priced_month, products FROM {rollup}") == [(None, 1)]
