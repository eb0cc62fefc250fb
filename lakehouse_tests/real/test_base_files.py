"""Base files and reference files, read by Spark."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from lakehouse.examples.samples import TemperatureSamples
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.sources import OpenMeteoFiles
from lakehouse_tests.helpers.places import DATA
from lakehouse_tests.helpers.tables.base_files import base_archive, base_table

FILES = OpenMeteoFiles(DATA / "base")
FIELDS = temperatures.fields
FIRST = datetime(2022, 1, 1, tzinfo=UTC)


def rows_of(spark: SparkSession, folder: Path) -> list[Row]:
    return FILES.read(spark, folder, FIELDS).orderBy("_file", "_place").collect()


@pytest.mark.invariant("6.3", "13.1", "13.2")
def test_a_json_file_becomes_a_row_for_each_hour_with_exact_keys(spark: SparkSession) -> None:
    frame = FILES.read(spark, DATA / "base", FIELDS)
    assert dict(frame.dtypes) == {
        "_file": "string",
        "_place": "bigint",
        "latitude": "decimal(9,6)",
        "longitude": "decimal(9,6)",
        "observed_at": "timestamp",
        "temperature_2m": "double",
    }
    rows = frame.where("_file LIKE '%London%'").orderBy("_place").collect()
    london = json.loads((DATA / "base/2022_London_Temps.json").read_text(encoding="utf-8"))
    assert [row.temperature_2m for row in rows] == london["hourly"]["temperature_2m"]
    assert [row._place for row in rows] == list(range(168))
    assert {(row._file, row.latitude, row.longitude) for row in rows} == {
        ("2022_London_Temps.json", Decimal("51.500000"), Decimal("-0.099991"))
    }
    times = frame.selectExpr("CAST(min(observed_at) AS STRING)", "CAST(max(observed_at) AS STRING)").first()
    assert times is not None
    assert tuple(times) == ("2022-01-01 00:00:00", "2022-01-07 23:00:00")


@pytest.mark.invariant("13.1", "13.2")
def test_parquet_of_any_types_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    hours = [FIRST, FIRST.replace(hour=1)]
    files = {
        "text": base_table(),
        "utc": base_table(time=pa.array(hours, pa.timestamp("us", "UTC"))),
        "local": base_table(time=pa.array(hours, pa.timestamp("ns", "America/Anchorage"))),
        "plain": base_table(time=pa.array([hour.replace(tzinfo=None) for hour in hours], pa.timestamp("ms"))),
        "single": base_table(
            longitude=pa.array([-0.099990845] * 2, pa.float32()), temperature_2m=pa.array([4.2, None], pa.float32())
        ),
        "exact": base_table(
            longitude=pa.array([Decimal("-0.099990845")] * 2, pa.decimal128(12, 9)),
            temperature_2m=pa.array([Decimal("4.2"), None], pa.decimal128(9, 1)),
        ),
    }
    for name, content in files.items():
        pq.write_table(content, tmp_path / f"{name}.parquet")
    (tmp_path / "archive.json").write_text(json.dumps(base_archive()))
    rows = rows_of(spark, tmp_path)
    rows_by_file = {
        name: [tuple(row)[1:] for row in rows if row._file.startswith(name)] for name in [*files, "archive"]
    }
    assert len(rows_by_file["archive"]) == 2
    assert [name for name, file_rows in rows_by_file.items() if file_rows != rows_by_file["archive"]] == []


def test_the_committed_parquet_sample_is_readable(spark: SparkSession) -> None:
    rows = rows_of(spark, DATA / "base_parquet")
    assert len(rows) == 168
    assert {(row.latitude, row.longitude) for row in rows} == {(Decimal("41.900010"), Decimal("12.500000"))}


@pytest.mark.slow
def test_the_whole_sample_base_is_read(spark: SparkSession, tmp_path: Path) -> None:
    TemperatureSamples().write_base(tmp_path)
    frame = FILES.read(spark, tmp_path, FIELDS)
    counts = frame.groupBy("latitude", "longitude").count().collect()
    assert [row["count"] for row in counts] == [35_064] * 6
    assert frame.where("temperature_2m IS NULL").count() == 0


def test_hidden_files_and_markers_of_other_writers_are_skipped(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(base_archive()))
    (tmp_path / ".part.crc").write_text("x")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "_delta_log").mkdir()
    assert [(row._file, row._place) for row in rows_of(spark, tmp_path)] == [("a.json", 0), ("a.json", 1)]
