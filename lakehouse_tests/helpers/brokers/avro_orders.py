"""Orders as Avro records, on a real broker with a real registry."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from lakehouse.declaration import StreamTable
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def order(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": Decimal(number), "at": NOON + timedelta(minutes=number), "total": float(number), **fields}


def stream_of(spark: Any, settings: Settings, table: StreamTable) -> Stream:
    return Stream.of(spark, settings, table)


def totals(stream: Stream) -> list[tuple[Any, ...]]:
    return stream.sql("SELECT CAST(id AS INT), total, customer FROM {t} ORDER BY id")
