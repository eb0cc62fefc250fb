"""Rows of tables, read without Spark; the only module of the tests that depends on the internal columns."""

from datetime import datetime
from typing import Any, NamedTuple

from deltalake import DeltaTable

from lakehouse.ledger.versions import scan_rows
from lakehouse.settings import Settings

Row = dict[str, Any]


class Origin(NamedTuple):
    """The record or the number of the base commit that set a row or the value of a kept column."""

    time: datetime | None
    partition: int | None
    position: int | None
    base: int | None


def rows_of(settings: Settings, name: str, version: int | None = None) -> list[Row]:
    """Return all rows of a table in any order, of the newest version or of another one."""
    table = DeltaTable(settings.table_uri(name), version=version)
    rows: list[Row] = scan_rows(table, [field.name for field in table.schema().fields]).to_table().to_pylist()
    return rows


def origin(row: Row, kept_column: str | None = None) -> Origin:
    """Return the origin of a row of a merged table, or of its value of a kept column; a delete may have erased it.

    Its time is the one that orders the record.
    """
    stored_record = row["_kept"][kept_column] if kept_column else row["_record"]
    if not stored_record:
        return Origin(None, None, None, None)
    time = stored_record["order_time"] or stored_record["time"]
    return Origin(time, *(stored_record[name] for name in Origin._fields[1:]))


def source_of(row: Row, kept_column: str | None = None) -> str | None:
    """Return the source of the record that set a row or the value of a kept column."""
    stored_record = (row["_kept"][kept_column] if kept_column else row["_record"]) or {}
    return stored_record.get("source")


def place_in_array(row: Row, kept_column: str | None = None) -> tuple[int, ...]:
    """Return the index of the element that set a row or the value of a kept column; empty if it is not an element."""
    stored_record = (row["_kept"][kept_column] if kept_column else row["_record"]) or {}
    index = stored_record.get("index")
    return () if index is None else (index,)


def position(row: Row) -> tuple[Any, ...]:
    """Return partition and position of a rejected record, and its index in a table of elements."""
    names = ("partition", "position", "index")
    return tuple(row["position"][name] for name in names if name in row["position"])


def hour_of(row: Row) -> str:
    """Return the hour of a row in the format of the records."""
    return f"{row['observed_at']:%Y-%m-%dT%H:%M}"
