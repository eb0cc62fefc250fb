"""Read the derived tables of a stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.operations.verify import verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream, record
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of


@contextmanager
def refresh_around(stream: Stream) -> Iterator[Stream]:
    """Refresh feed and rollup before and after the block; check that the rollup equals its recomputation."""
    stream.merge()
    stream.refresh()
    yield stream
    stream.refresh()
    finding = verify_rollup(stream.context, stream.table.rollups[0])
    assert finding.passed, finding.detail
    stream.assert_accounted()


def take(stream: Stream, temperatures: dict[str, float]) -> None:
    """Merge one temperature per hour in one batch."""
    stream.send_and_merge(*(record(time=hour, temperature_2m=value) for hour, value in temperatures.items()))


def feed_changes(stream: Stream, hour: str, latitude: float = 13.0) -> list[tuple[Any, ...]]:
    """Return the changes of an hour, oldest first: change, before, after, and whether it is reconciled."""
    change_rows = rows_of(stream.settings, stream.table.changes_name)
    rows = [row for row in change_rows if hour_of(row) == hour and row["latitude"] == latitude]
    rows.sort(key=lambda row: (row["number"], row["source_version"]))
    names = ("change", "temperature_2m_before", "temperature_2m_after", "reconciled")
    return [tuple(row[name] for name in names) for row in rows]


def ledger_of(stream: Stream, name: str) -> Ledger:
    return read_ledger(stream.settings.table_uri(name), name, whole=True)


def figures(stream: Stream, latitude: float) -> list[tuple[Any, ...]]:
    """Return the values of the rollup for one latitude, by month."""
    rows = [row for row in rows_of(stream.settings, stream.table.rollups[0].name) if row["latitude"] == latitude]
    names = ("rows", "readings", "temperature_min", "temperature_max", "temperature_sum", "temperature_avg")
    return [
        (*(float(row[name]) for name in names), f"{row['first_observed_at']:%H}", f"{row['last_observed_at']:%H}")
        for row in sorted(rows, key=lambda row: row["observed_month"])
    ]
