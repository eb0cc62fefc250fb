"""Base files and reference files: what is read, and that a file which cannot be is named."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from lakehouse.errors import BaseFileError
from lakehouse.samples.temperatures import TemperatureSamples
from lakehouse.sources import OpenMeteoFiles, read_reference
from lakehouse.tables.temperatures import temperatures

DATA = Path(__file__).parents[1] / "data/temperatures"
FILES = OpenMeteoFiles(DATA / "base")
FIELDS = temperatures.fields
LOCATIONS = temperatures.references[0]
NO_SESSION: Any = None  # a file is refused before Spark is asked
FIRST = datetime(2022, 1, 1, tzinfo=UTC)


def archive(**changes: Any) -> dict[str, Any]:
    """An archive of two hours in London."""
    hourly = {"time": ["2022-01-01T00:00", "2022-01-01T01:00"], "temperature_2m": [4.2, None]}
    return {"latitude": 51.5, "longitude": -0.099990845, "utc_offset_seconds": 0, "hourly": hourly} | changes


def table(**changes: Any) -> pa.Table:
    columns = {
        "latitude": [51.5, 51.5],
        "longitude": [-0.099990845, -0.099990845],
        "time": ["2022-01-01T00:00", "2022-01-01T01:00"],
        "temperature_2m": [4.2, None],
    }
    return pa.table({name: column for name, column in (columns | changes).items() if column is not None})


def rows_of(spark: SparkSession, folder: Path) -> list[Row]:
    return FILES.read(spark, folder, FIELDS).orderBy("_file", "_place").collect()


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str, str | bytes | pa.Table], BaseFileError]:
    """Writes one file beside a good one, reads the folder and returns the error."""

    def read(name: str, content: str | bytes | pa.Table) -> BaseFileError:
        (tmp_path / "a.json").write_text(json.dumps(archive()))
        if isinstance(content, pa.Table):
            pq.write_table(content, tmp_path / name)
        else:
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        with pytest.raises(BaseFileError) as raised:
            FILES.read(NO_SESSION, tmp_path, FIELDS)
        assert raised.value.where == str(tmp_path / name)
        assert "Nothing was loaded" in str(raised.value)
        return raised.value

    return read


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


def test_parquet_gives_the_same_rows_whatever_its_types(spark: SparkSession, tmp_path: Path) -> None:
    hours = [FIRST, FIRST.replace(hour=1)]
    forms = {
        "text": table(),
        "utc": table(time=pa.array(hours, pa.timestamp("us", "UTC"))),
        "local": table(time=pa.array(hours, pa.timestamp("ns", "America/Anchorage"))),
        "plain": table(time=pa.array([hour.replace(tzinfo=None) for hour in hours], pa.timestamp("ms"))),
        "single": table(
            longitude=pa.array([-0.099990845] * 2, pa.float32()), temperature_2m=pa.array([4.2, None], pa.float32())
        ),
        "exact": table(
            longitude=pa.array([Decimal("-0.099990845")] * 2, pa.decimal128(12, 9)),
            temperature_2m=pa.array([Decimal("4.2"), None], pa.decimal128(9, 1)),
        ),
    }
    for name, form in forms.items():
        pq.write_table(form, tmp_path / f"{name}.parquet")
    (tmp_path / "archive.json").write_text(json.dumps(archive()))
    rows = rows_of(spark, tmp_path)
    found = {name: [tuple(row)[1:] for row in rows if row._file.startswith(name)] for name in [*forms, "archive"]}
    assert len(found["archive"]) == 2
    assert [name for name, form in found.items() if form != found["archive"]] == []


def test_the_committed_parquet_sample_is_readable(spark: SparkSession) -> None:
    rows = rows_of(spark, DATA / "base_parquet")
    assert len(rows) == 168
    assert {(row.latitude, row.longitude) for row in rows} == {(Decimal("41.900010"), Decimal("12.500000"))}


def test_the_whole_sample_base_is_read(spark: SparkSession, tmp_path: Path) -> None:
    TemperatureSamples().write_base(tmp_path)
    frame = FILES.read(spark, tmp_path, FIELDS)
    counts = frame.groupBy("latitude", "longitude").count().collect()
    assert [row["count"] for row in counts] == [35_064] * 6
    assert frame.where("temperature_2m IS NULL").count() == 0


def test_hidden_files_and_marks_of_other_writers_are_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(archive()))
    (tmp_path / ".part.crc").write_text("x")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "_delta_log").mkdir()
    assert [(row._file, row._place) for row in rows_of(spark, tmp_path)] == [("a.json", 0), ("a.json", 1)]


def test_a_missing_or_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BaseFileError, match="no base files") as empty:
        FILES.read(NO_SESSION, tmp_path, FIELDS)
    assert empty.value.where == str(tmp_path)
    with pytest.raises(BaseFileError, match="no such folder"):
        FILES.read(NO_SESSION, tmp_path / "missing", FIELDS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notes.txt", "hello", "Neither a JSON nor a Parquet file"),
        ("lines.json", '{"latitude":1}\n{"latitude":2}', "trailing_bytes"),
        ("cut.json", json.dumps(archive())[:80], "truncated"),
        ("twice.json", '{"latitude":1,"latitude":2}', "duplicate_name"),
        ("nan.json", json.dumps(archive(latitude=float("nan"))), "not_finite"),
        ("bytes.json", b'{"latitude":"\xff"}', "invalid_utf8"),
        ("array.json", "[]", "not_an_object"),
        ("empty.json", "", "empty_value"),
        ("record.json", '{"latitude":1,"longitude":2,"time":"2022-01-01T00:00"}', "No Open-Meteo archive"),
        ("hourless.json", json.dumps(archive(hourly={})), "not equally long"),
        ("text.json", json.dumps(archive(hourly={"time": "2022"})), "No Open-Meteo archive"),
        ("one.json", json.dumps(archive(hourly={"time": ["2022-01-01T00:00"]})), "No 'temperature_2m'"),
        ("local.json", json.dumps(archive(utc_offset_seconds=-32400)), "-32400 seconds away from UTC"),
        ("units.json", json.dumps(archive(hourly_units={"temperature_2m": "°F"})), "The unit of 'temperature_2m'"),
        ("broken.parquet", b"PAR1 is how it begins", "Not a readable Parquet file"),
        ("empty.parquet", b"", "Not a readable Parquet file"),
        ("column.parquet", table(time=None), "No 'time'"),
        ("null.parquet", table(latitude=[51.5, None]), "Row 1: null_field, 'latitude'"),
        ("nan.parquet", table(temperature_2m=[4.2, float("nan")]), "Row 1: not_finite"),
        ("type.parquet", table(temperature_2m=["4.2", "4.3"]), "Row 0: wrong_type"),
        ("range.parquet", table(latitude=[51.5, 151.5]), "Row 1: out_of_range"),
        ("date.parquet", table(time=["2022-01-01T00:00", "2022-02-30T00:00"]), "Row 1: no_such_date"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named_with_its_reason(
    refused: Callable[[str, Any], BaseFileError], name: str, content: Any, said: str
) -> None:
    assert said in refused(name, content).what


def test_arrays_of_unequal_length_are_refused(refused: Callable[[str, Any], BaseFileError]) -> None:
    hourly = {"time": ["2022-01-01T00:00", "2022-01-01T01:00"], "temperature_2m": [4.2]}
    assert "{'time': 2, 'temperature_2m': 1}" in refused("b.json", json.dumps(archive(hourly=hourly))).what


def test_a_row_that_cannot_be_loaded_is_named_by_its_place(refused: Callable[[str, Any], BaseFileError]) -> None:
    hourly = {"time": ["2022-01-01T00:00", "2022-01-01 01:00"], "temperature_2m": [4.2, 4.3]}
    assert refused("b.json", json.dumps(archive(hourly=hourly))).what.startswith("Row 1: wrong_time_format")


def test_a_folder_inside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "2022.json").mkdir()
    with pytest.raises(BaseFileError, match=r"Neither a JSON nor a Parquet file .*2022\.json"):
        FILES.read(NO_SESSION, tmp_path, FIELDS)


def test_the_reference_has_a_row_for_each_place(spark: SparkSession) -> None:
    rows = read_reference(spark, LOCATIONS, DATA / "locations.jsonl").collect()
    assert rows[0].__fields__ == ["latitude", "longitude", "elevation", "name"]
    assert len(rows) == 6
    assert (Decimal("51.500000"), Decimal("-0.099991"), 9.0, "London, England") in [tuple(row) for row in rows]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ('{"latitude":1,"longitude":2}', "Line 2: missing_field, 'name'"),
        ("", "Line 2: empty_value"),
        ("{", "Line 2: truncated"),
        ('{"latitude":1.0000004,"longitude":2,"name":"again"}', "Line 2 repeats the key"),
    ],
)
def test_a_reference_line_that_cannot_be_loaded_is_named(tmp_path: Path, second: str, said: str) -> None:
    file = tmp_path / "places.jsonl"
    file.write_text('{"latitude":1,"longitude":2,"name":"x"}\n' + second + "\n")
    with pytest.raises(BaseFileError, match=said) as raised:
        read_reference(NO_SESSION, LOCATIONS, file)
    assert raised.value.where == str(file)


def test_a_missing_reference_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BaseFileError, match=r"cannot be read: No such file.*places\.jsonl"):
        read_reference(NO_SESSION, LOCATIONS, tmp_path / "places.jsonl")
