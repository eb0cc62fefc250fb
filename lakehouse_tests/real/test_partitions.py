"""Partitions by day, month, year or value, of a key or not: a row is in one partition and moves as one row."""

import json
from typing import Any
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Day, Measure, Month, Rollup, StreamTable, Time, Value, Year
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, counts

pytestmark = pytest.mark.invariant("4.6")

NEW_YEAR = 1_767_225_600  # seconds: 2026-01-01
DAY = 86_400


def orders(partition_by: Any, key: list[str]) -> StreamTable:
    name = f"orders_{uuid4().hex[:8]}"
    columns = [
        Column("id", "BIGINT", required=True, doc="Number of the order."),
        Column(
            "paid_at", "TIMESTAMP", written=Time(epoch="seconds"), source=("payment", "at"), required=True, doc="UTC."
        ),
        Column("day", "DATE", written=Time(epoch="days"), required=True, doc="Day of delivery."),
        Column("shop", "BIGINT", doc="Number of the shop; NULL if the order is sent."),
        Column("pieces", "INT", default=1, doc="How many; 1 if the field is missing."),
    ]
    pieces = {"pieces": Measure("sum(pieces)", "BIGINT", "How many.")}
    rollup = Rollup(f"{name}_by", by=[partition_by.name], measures=pieces, doc="Pieces by partition.")
    return StreamTable(name, name, "Orders.", columns, key, partition_by, rollups=[rollup])


def order(number: int, days: float, **fields: Any) -> bytes:
    payment = {"at": NEW_YEAR + days * DAY}
    day = (NEW_YEAR // DAY) + int(days)
    shop = {0: None, 1: -2}.get(int(days), int(days))
    return json.dumps({"id": number, "payment": payment, "day": day, "shop": shop, **fields}).encode()


@pytest.mark.parametrize(
    ("partition_by", "key", "names"),
    [
        pytest.param(Day("paid_at"), ["id"], ["2026-01-01", "2026-01-02", "2027-02-05"], marks=pytest.mark.slow),
        (Month("day"), ["id", "day"], ["2026-01-01", "2027-02-01"]),
        pytest.param(Year("paid_at"), ["id", "paid_at"], ["2026-01-01", "2027-01-01"], marks=pytest.mark.slow),
        pytest.param(Value("shop"), ["id"], [None, "-2", "400"], marks=pytest.mark.slow),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else None,
)
def test_rows_are_in_the_partition_of_their_value_and_move_as_one_row(spark, broker, partition_by, key, names):
    stream = Stream.of(spark, broker, orders(partition_by, key))
    stream.send_and_refresh(order(1, 0), order(2, 1.5, pieces=5), order(3, 400, pieces=None))
    column = partition_by.name
    assert stream.sql(f"SELECT DISTINCT CAST({column} AS STRING) FROM {{t}} ORDER BY 1") == [(name,) for name in names]
    # the first order again, and the second with another payment, delivery and shop
    stream.send(order(1, 0, pieces=7), order(2, 400, pieces=6))
    moved_rows = 0 if len(key) > 1 else 1
    writer = "Apache" if isinstance(partition_by, Day | Year) else "delta-rs"
    with by_spark(writer == "Apache"):
        (outcome,) = stream.merge()
        stream.refresh()
    assert DeltaTable(stream.uri).history(1)[0]["engineInfo"].startswith(writer)
    merge_counts = counts(outcome.entry)
    assert (merge_counts["updated"], merge_counts["inserted"]) == (1 + moved_rows, 1 - moved_rows)
    rows = stream.sql(f"SELECT id, pieces, CAST({column} AS STRING) FROM {{t}} ORDER BY id, paid_at")
    remaining_rows = [] if moved_rows else [(2, 5, names[min(1, len(names) - 2)])]
    assert rows == [(1, 7, names[0]), *remaining_rows, (2, 6, names[-1]), (3, 1, names[-1])]
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    assert verify_keys(stream.context).passed
    before = stream.snapshot_of("id, paid_at")
    stream.replay()
    assert stream.snapshot_of("id, paid_at") == before
    stream.assert_accounted()
