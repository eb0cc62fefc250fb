"""Tables that the views of these tests read, and how to fill them without Spark."""

from decimal import Decimal

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse.declaration import Column, Measure, Rollup, StreamTable, Time
from lakehouse.settings import Settings

ORDERS = StreamTable(
    name="orders",
    topic="orders",
    doc="Orders.",
    columns=[
        Column("id", "STRING", required=True, doc="Id of the order."),
        Column("customer", "STRING", doc="Id of the customer."),
        Column("price", "DECIMAL(18,2)", doc="Price."),
        Column("pieces", "INT", doc="Number of pieces."),
        Column("weight", "DOUBLE", doc="Weight in kg."),
        Column("ordered_at", "TIMESTAMP", written=Time("iso8601"), doc="Time of the order."),
        Column("tags", "ARRAY<STRING>", doc="Tags."),
    ],
    key=["id"],
    rollups=[
        Rollup("orders_by_customer", ["customer"], {"orders": Measure("count(*)", "BIGINT", "Orders.")}, "Counts.")
    ],
)
CUSTOMERS = StreamTable(
    name="customers",
    topic="customers",
    doc="Customers.",
    columns=[
        Column("id", "STRING", required=True, doc="Id of the customer."),
        Column("city", "STRING", doc="City."),
    ],
    key=["id"],
)


def add_orders(settings: Settings, *rows: tuple[str, str, str]) -> None:
    """Append orders: id, customer and price."""
    names = ("id", "customer", "price")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    prices = pa.array([Decimal(price) for price in columns["price"]], pa.decimal128(18, 2))
    table = pa.table({"id": columns["id"], "customer": columns["customer"], "price": prices})
    write_deltalake(settings.table_uri("orders"), table, mode="append")


def add_customers(settings: Settings, *rows: tuple[str, str]) -> None:
    """Append customers: id and city."""
    ids, cities = zip(*rows, strict=True)
    write_deltalake(settings.table_uri("customers"), pa.table({"id": ids, "city": cities}), mode="append")
