"""The example of heart rates in folders of a test, and the same table computed in Python alone."""

import csv
import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.declaration import Files, StreamTable
from lakehouse.derived.refresh import refresh_all
from lakehouse.examples.tables.heart_rates import heart_rates
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ledger.audit import audit
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext

_UTC_START = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[int, datetime, int, float]
"""Device, time, number of the patient and rate."""


@dataclass
class Clinic:
    """A folder of readings, the file of the patients, and the table that reads both."""

    spark: SparkSession
    settings: Settings
    table: StreamTable

    @classmethod
    def of(cls, spark: SparkSession, folder: Path, patients: bytes) -> "Clinic":
        """Return a clinic without readings in a folder; files that are renamed into it are read at once."""
        settings = Settings(home=folder / "home", files=str(folder / "files"))
        (folder / "files" / "readings").mkdir(parents=True)
        (folder / "patients.csv").write_bytes(patients)
        assert isinstance(heart_rates.source, Files)
        source = replace(heart_rates.source, folder="readings", settle=timedelta(0))
        references = [replace(heart_rates.references[0], file=folder / "patients.csv")]
        return cls(spark, settings, replace(heart_rates, source=source, references=references))

    @property
    def context(self) -> TableContext:
        return TableContext(self.spark, self.settings, self.table)

    def land(self, name: str, content: bytes) -> None:
        """Write a file elsewhere and rename it into the folder."""
        folder = Path(self.settings.files_root)
        (folder / "unfinished").write_bytes(content)
        (folder / "unfinished").rename(folder / "readings" / name)

    def merge(self) -> list[Outcome]:
        """Merge the files that are there, and refresh what is derived from the table."""
        outcomes = merge_all(self.context)
        refresh_all(self.context)
        return outcomes

    def stored_rows(self, name: str, *columns: str) -> set[tuple[Any, ...]]:
        """The rows of a table, without their order."""
        rows = self.spark.read.format("delta").load(self.settings.table_uri(name)).selectExpr(*columns)
        return {tuple(row) for row in rows.collect()}

    def rejected(self) -> list[tuple[str, str]]:
        """The reasons and the details of all rejected records."""
        name = self.table.rejected_name
        return sorted((row[0], row[1]) for row in self.stored_rows(name, "reason", "detail", "position"))

    def assert_accounted(self) -> None:
        """The history of the table counts every record."""
        assert all(finding.passed for finding in audit(self.context.ledger()))

    def assert_equals(self, rows: Sequence[Row]) -> None:
        """The table and its rollups are those that Python alone computes of these rows."""
        name = self.table.name
        assert self.stored_rows(name, "device_id", "unix_micros(recorded_at)", "mrn", "heartrate") == {
            (device, (at - _UTC_START) // timedelta(microseconds=1), mrn, rate) for device, at, mrn, rate in rows
        }
        assert self.stored_rows(f"{name}_by_device", "device_id", "readings") == set(_count_by_device(rows))
        columns = ("mrn", "recorded_on", "readings", "heartrate_avg")
        assert self.stored_rows(f"{name}_by_day", *columns) == set(_average_by_day(rows))


def elements_of(content: bytes) -> list[Any]:
    """The elements of a file, which may be compressed."""
    return list(json.loads(zlib.decompress(content, 31) if content[:2] == b"\x1f\x8b" else content))


def patients_in(content: bytes) -> set[int]:
    """The numbers of the patients in a CSV file."""
    return {int(row["mrn"]) for row in csv.DictReader(content.decode().splitlines())}


def rows_of(elements: Iterable[Any], patients: set[int]) -> list[Row]:
    """The rows of elements that are readings of known patients with a rate; a later one of a device and time wins."""
    rows: dict[tuple[int, datetime], Row] = {}
    for element in elements:
        try:
            row = _row_of(element)
        except (TypeError, KeyError, ValueError, ArithmeticError):
            continue
        if row[3] > 0 and row[2] in patients:
            rows[row[:2]] = row
    return list(rows.values())


def _row_of(element: Any) -> Row:
    microseconds = (Decimal(element["time"]) * 1_000_000).quantize(Decimal(1), ROUND_HALF_UP)
    at = _UTC_START + timedelta(microseconds=int(microseconds))
    return int(element["device_id"]), at, int(element["mrn"]), float(element["heartrate"])


def _count_by_device(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    devices = [row[0] for row in rows]
    return ((device, devices.count(device)) for device in set(devices))


def _average_by_day(rows: Sequence[Row]) -> Iterator[tuple[int, date, int, float]]:
    rates = defaultdict[tuple[int, date], list[Decimal]](list)
    for _, at, mrn, rate in rows:
        rates[mrn, at.date()].append(Decimal(repr(rate)).quantize(Decimal("1e-10"), ROUND_HALF_UP))
    for (mrn, day), values in rates.items():
        mean = (sum(values) / len(values)).quantize(Decimal("1e-20"), ROUND_HALF_UP)
        yield mrn, day, len(values), float(mean)
