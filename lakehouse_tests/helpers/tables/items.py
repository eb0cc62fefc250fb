"""A small table with a column of each common type, as the API shows it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)
TYPES = {
    "id": pa.int64(),
    "place": pa.string(),
    "price": pa.decimal128(9, 2),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "ratio": pa.float64(),
    "is_open": pa.bool_(),
    "photo": pa.binary(),
    "tags": pa.list_(pa.string()),
    "limit": pa.int32(),
}


def row(number: int, **values: Any) -> dict[str, Any]:
    """A row with this number, in which some values are other ones."""
    at = NOON + number * timedelta(days=20)
    columns = [number, "Rome" if number % 2 else "Oslo", Decimal(number) / 4, at, at.date(), number / 2]
    return dict(zip(TYPES, [*columns, number > 2, b"\xff", ["x"], number % 3], strict=True)) | values


FIRST = [row(number) for number in range(5)]
SECOND = [row(5, ratio=float("nan")), dict.fromkeys(TYPES) | {"id": 6, "place": ""}]


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with the types of the table."""
    return pa.Table.from_pylist(rows, pa.schema(TYPES))
