"""Rows of tables as another reader of Delta sees them, without Spark; the one place that knows the columns of ours."""

from datetime import datetime
from typing import Any, NamedTuple

from deltalake import DeltaTable

from lakehouse.settings import Settings

Row = dict[str, Any]


class Origin(NamedTuple):
    """The record, or the number of the base commit, with which a row or the value of a kept column came."""

    time: datetime | None
    partition: int | None
    position: int | None
    base: int | None


def rows_of(settings: Settings, name: str) -> list[Row]:
    """Every row of a table, in no order."""
    rows: list[Row] = DeltaTable(settings.table_uri(name)).to_pyarrow_table().to_pylist()
    return rows


def origin(row: Row, kept: str | None = None) -> Origin:
    """Where a row of a merged table came from, or the value of a column that is kept."""
    stored = row["_kept"][kept] if kept else row["_record"]
    return Origin(*(stored[name] for name in Origin._fields))


def position(row: Row) -> tuple[int, int]:
    """Partition and position of a rejected record."""
    return row["position"]["partition"], row["position"]["position"]


def hour_of(row: Row) -> str:
    """The hour of a temperature, as a record says it."""
    return f"{row['observed_at']:%Y-%m-%dT%H:%M}"
