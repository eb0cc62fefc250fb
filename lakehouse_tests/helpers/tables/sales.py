"""A table of sales whose columns are widened: the narrow and the wide declaration."""

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Measure, Rollup, StreamTable, Topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream


def sales(pieces: Column, price: Column, key: Column, most_type: str) -> StreamTable:
    name = f"sales_{uuid4().hex[:8]}"
    measures = {
        "most": Measure("max(pieces)", most_type, "Most pieces."),
        "rows": Measure("count(*)", "BIGINT", "Sales."),
    }
    rollup = Rollup(f"{name}_by_price", by=["price"], measures=measures, doc="By price.")
    return StreamTable(
        name, source=Topic(name, partitions=1), doc="Sales.", columns=[key, pieces, price], key=["id"], rollups=[rollup]
    )


ID = Column("id", "INT", required=True, doc="Number.")
PIECES = Column("pieces", "INT", doc="How many.")
PRICE = Column("price", "DECIMAL(4,2)", doc="Of one.")
WIDE = {
    "id": replace(ID, type="BIGINT", widened_from="INT"),
    "pieces": replace(PIECES, type="BIGINT", widened_from="INT"),
    "price": replace(PRICE, type="DECIMAL(12,4)", widened_from="DECIMAL(4,2)"),
}


def sale(number: int, pieces: Any, price: Any) -> bytes:
    return json.dumps({"id": number, "pieces": pieces, "price": price}).encode()


def with_wide_columns(table: StreamTable) -> StreamTable:
    (rollup,) = table.rollups
    measures = {**rollup.measures, "most": replace(rollup.measures["most"], type="BIGINT")}
    return replace(table, columns=[*WIDE.values()], rollups=[replace(rollup, measures=measures)])


def narrow_sales(spark: SparkSession, broker: Settings) -> Stream:
    """Merge three sales with narrow types; one of them changes after the last refresh of the derived tables."""
    stream = Stream.of(spark, broker, sales(PIECES, PRICE, ID, "INT"))
    stream.send_and_refresh(sale(1, 5, 9.99), sale(2, 6, 9.99), sale(3, None, None))
    stream.send(sale(2, 7, 1))
    stream.merge()  # the derived tables have not read this batch
    return stream
