"""A log table for the tests: hourly temperatures, of which every record is a row."""

from typing import Any
from uuid import uuid4

from deltalake import DeltaTable

from lakehouse.declaration import Column, Day, Measure, Rollup, StreamTable
from lakehouse.derived.refresh import refresh_rollup
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

COLUMNS = (
    Column("latitude", "DECIMAL(9,6)", required=True, doc="Degrees north."),
    Column("longitude", "DECIMAL(9,6)", required=True, doc="Degrees east."),
    Column("observed_at", "TIMESTAMP", source="time", pattern="%Y-%m-%dT%H:%M", required=True, doc="Hour, UTC."),
    Column("temperature_2m", "DOUBLE", between=(-100, 70), doc="Degrees Celsius."),
)


def log_table(**changes: Any) -> StreamTable:
    """A log table under a name and a topic of its own, with a rollup by day."""
    name = f"log_{uuid4().hex[:12]}"
    readings = {
        "readings": Measure("count(*)", "BIGINT", "Rows."),
        "hottest": Measure("max(temperature_2m)", "DOUBLE", ""),
    }
    rollup = Rollup(f"{name}_by_day", by=["observed_day"], measures=readings, doc="Rows by day.")
    said: dict[str, Any] = dict(columns=COLUMNS, partition_by=Day("observed_at"), rollups=[rollup], partitions=2)
    return StreamTable(name, name, "Every temperature that was sent.", key=(), **(said | changes))


def logged(stream: Stream) -> list[tuple[Any, ...]]:
    """Partition, offset, hour and temperature of every row, in the order of the records."""
    return stream.sql(
        "SELECT _record.partition, _record.position, date_format(observed_at, \"yyyy-MM-dd'T'HH:mm\"), temperature_2m"
        " FROM {t} ORDER BY 1, 2"
    )


def operations(stream: Stream) -> list[str]:
    """What the commits of batches were, newest first."""
    entries = {entry.version: entry.commit.kind for entry in stream.ledger.entries}
    told = DeltaTable(stream.uri).history()
    newest = DeltaTable(stream.uri).version()
    return [each["operation"] for back, each in enumerate(told) if entries.get(newest - back) == "batch"]


def at_hours(*numbers: int) -> list[bytes]:
    return [record(time=hour(number), temperature_2m=float(number)) for number in numbers]


def is_right(stream: Stream) -> None:
    """Every record is accounted for, none stands twice, and the rollup is that of the rows."""
    (rollup,) = stream.table.rollups
    refresh_rollup(stream.context, rollup)
    found = verify_rollup(stream.context, rollup)
    assert found.passed, found.detail
    assert verify_keys(stream.context).passed
    stream.assert_accounted()
