"""Tables that differ from the temperatures in shape: everything follows from the declaration."""

import json
from uuid import uuid4

import pytest

from lakehouse.declaration import Column, Measure, Rollup, StreamTable, Time
from lakehouse.kafka import publish
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream

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
    return Stream.of(spark, broker, prices())


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
