"""A log table for tests: hourly temperatures, one row per record."""

from typing import Any
from uuid import uuid4

from deltalake import DeltaTable

from lakehouse.declaration import Column, Day, Measure, Rollup, StreamTable, Time
from lakehouse.derived.refresh import refresh_rollup
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.tables.tables import redeclare

COLUMNS = (
    Column("latitude", "DECIMAL(9,6)", required=True, doc="Degrees north."),
    Column("longitude", "DECIMAL(9,6)", required=True, doc="Degrees east."),
    Column("observed_at", "TIMESTAMP", source="time", written=Time("%Y-%m-%dT%H:%M"), required=True, doc="Hour, UTC."),
    Column("temperature_2m", "DOUBLE", between=(-100, 70), doc="Degrees Celsius."),
)


def log_table(**changes: Any) -> StreamTable:
    """Declare a new log table with a new topic and a rollup by day."""
    name = f"log_{uuid4().hex[:12]}"
    measures = {
        "readings": Measure("count(*)", "BIGINT", "Rows."),
        "hottest": Measure("max(temperature_2m)", "DOUBLE", ""),
    }
    rollup = Rollup(f"{name}_by_day", by=["observed_day"], measures=measures, doc="Rows by day.")
    values: dict[str, Any] = dict(columns=COLUMNS, partition_by=Day("observed_at"), rollups=[rollup])
    table = StreamTable(name, name, "Every temperature that was sent.", key=(), **values)
    return redeclare(table, **{"partitions": 2} | changes)


def list_rows(stream: Stream) -> list[tuple[Any, ...]]:
    """Return partition, offset, hour and temperature of every row, in the order of the records."""
    return stream.sql(
        "SELECT _record.partition, _record.position, date_format(observed_at, \"yyyy-MM-dd'T'HH:mm\"), temperature_2m"
        " FROM {t} ORDER BY 1, 2"
    )


def operations(stream: Stream) -> list[str]:
    """Return the Delta operations of the batches, newest first."""
    kinds = {entry.version: entry.commit.kind for entry in stream.ledger.entries}
    history = DeltaTable(stream.uri).history()
    newest = DeltaTable(stream.uri).version()
    return [info["operation"] for age, info in enumerate(history) if kinds.get(newest - age) == "batch"]


def at_hours(*numbers: int) -> list[bytes]:
    return [record(time=hour(number), temperature_2m=float(number)) for number in numbers]


def is_right(stream: Stream) -> None:
    """Check that every record is accounted for, that no record has two rows and that the rollup matches the rows."""
    (rollup,) = stream.table.rollups
    refresh_rollup(stream.context, rollup)
    finding = verify_rollup(stream.context, rollup)
    assert finding.passed, finding.detail
    assert verify_keys(stream.context).passed
    stream.assert_accounted()
