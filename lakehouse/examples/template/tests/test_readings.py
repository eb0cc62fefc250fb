"""Decode single records into rows. These tests need neither a broker nor Spark."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from my_lake.tables.readings import readings

from lakehouse import Rejection


def test_a_reading_becomes_a_row() -> None:
    row = readings.decode(b'{"sensor": "roof", "time": "2026-03-30T05:00:00Z", "celsius": 11.255}')
    assert row == {
        "sensor": "roof",
        "measured_at": datetime(2026, 3, 30, 5, tzinfo=UTC),
        "celsius": Decimal("11.26"),
    }


def test_a_reading_without_a_sensor_is_rejected() -> None:
    with pytest.raises(Rejection, match="missing_field"):
        readings.decode(b'{"time": "2026-03-30T05:00:00Z", "celsius": 11.25}')
