"""Base files and reference files: an error names the file, and the row, that cannot be loaded."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.declaration import Csv
from lakehouse.errors import BaseFileError
from lakehouse.examples.tables.heart_rates import heart_rates
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.sources import OpenMeteoFiles, read_reference_rows
from lakehouse_tests.helpers.places import DATA
from lakehouse_tests.helpers.tables.base_files import base_archive, base_table

FILES = OpenMeteoFiles(DATA / "base")
FIELDS = temperatures.fields
LOCATIONS = temperatures.references[0]
NO_SESSION: Any = None  # a file is refused before Spark is called
FIRST = datetime(2022, 1, 1, tzinfo=UTC)


@pytest.fixture
def refuse_file(tmp_path: Path) -> Callable[[str, str | bytes | pa.Table], BaseFileError]:
    """Write one file next to a good one, read the folder and return the error."""

    def read(name: str, content: str | bytes | pa.Table) -> BaseFileError:
        (tmp_path / "a.json").write_text(json.dumps(base_archive()))
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


@pytest.mark.invariant("6.5")
def test_a_missing_or_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BaseFileError, match="no base files") as empty:
        FILES.read(NO_SESSION, tmp_path, FIELDS)
    assert empty.value.where == str(tmp_path)
    with pytest.raises(BaseFileError, match="folder of base files does not exist"):
        FILES.read(NO_SESSION, tmp_path / "missing", FIELDS)


@pytest.mark.invariant("6.5", "13.3")
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", "hello", "This is neither a JSON nor a Parquet file"),
        ("lines.json", '{"latitude":1}\n{"latitude":2}', "trailing_bytes"),
        ("cut.json", json.dumps(base_archive())[:80], "truncated"),
        ("twice.json", '{"latitude":1,"latitude":2}', "duplicate_name"),
        ("nan.json", json.dumps(base_archive(latitude=float("nan"))), "not_finite"),
        ("bytes.json", b'{"latitude":"\xff"}', "invalid_utf8"),
        ("array.json", "[]", "not_an_object"),
        ("empty.json", "", "empty_value"),
        ("record.json", '{"latitude":1,"longitude":2,"time":"2022-01-01T00:00"}', "This is not an Open-Meteo archive"),
        ("hourless.json", json.dumps(base_archive(hourly={})), "differ in length"),
        ("text.json", json.dumps(base_archive(hourly={"time": "2022"})), "This is not an Open-Meteo archive"),
        (
            "one.json",
            json.dumps(base_archive(hourly={"time": ["2022-01-01T00:00"]})),
            "The file has no 'temperature_2m'",
        ),
        ("local.json", json.dumps(base_archive(utc_offset_seconds=-32400)), "differ from UTC by -32400 seconds"),
        ("units.json", json.dumps(base_archive(hourly_units={"temperature_2m": "°F"})), "The unit of 'temperature_2m'"),
        ("broken.parquet", b"PAR1 is how it begins", "The file is not a readable Parquet file"),
        ("empty.parquet", b"", "The file is not a readable Parquet file"),
        ("column.parquet", base_table(time=None), "The file has no 'time'"),
        ("null.parquet", base_table(latitude=[51.5, None]), "Row 1: null_field, 'latitude'"),
        ("nan.parquet", base_table(temperature_2m=[4.2, float("nan")]), "Row 1: not_finite"),
        ("type.parquet", base_table(temperature_2m=["4.2", "4.3"]), "Row 0: wrong_type"),
        ("range.parquet", base_table(latitude=[51.5, 151.5]), "Row 1: out_of_range"),
        ("date.parquet", base_table(time=["2022-01-01T00:00", "2022-02-30T00:00"]), "Row 1: no_such_date"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named_with_its_reason(
    refuse_file: Callable[[str, Any], BaseFileError], name: str, content: Any, message: str
) -> None:
    assert message in refuse_file(name, content).what


@pytest.mark.invariant("6.5")
def test_arrays_of_unequal_length_are_refused(refuse_file: Callable[[str, Any], BaseFileError]) -> None:
    hourly = {"time": ["2022-01-01T00:00", "2022-01-01T01:00"], "temperature_2m": [4.2]}
    assert "{'time': 2, 'temperature_2m': 1}" in refuse_file("b.json", json.dumps(base_archive(hourly=hourly))).what


@pytest.mark.invariant("6.5")
def test_a_row_that_cannot_be_loaded_is_named_by_its_number(refuse_file: Callable[[str, Any], BaseFileError]) -> None:
    hourly = {"time": ["2022-01-01T00:00", "2022-01-01 01:00"], "temperature_2m": [4.2, 4.3]}
    assert refuse_file("b.json", json.dumps(base_archive(hourly=hourly))).what.startswith("Row 1: wrong_time_format")


@pytest.mark.invariant("6.5")
def test_a_folder_inside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "2022.json").mkdir()
    with pytest.raises(BaseFileError, match=r"This is neither a JSON nor a Parquet file .*2022\.json"):
        FILES.read(NO_SESSION, tmp_path, FIELDS)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"latitude":1,"longitude":2}', "Line 2: missing_field, 'name'"),
        ("", "Line 2: empty_value"),
        ("{", "Line 2: truncated"),
        ('{"latitude":1.0000004,"longitude":2,"name":"again"}', "Line 2 repeats the key of an earlier line"),
    ],
)
def test_a_reference_line_that_cannot_be_loaded_is_named(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "places.jsonl"
    file.write_text('{"latitude":1,"longitude":2,"name":"x"}\n' + line + "\n")
    with pytest.raises(BaseFileError, match=message) as raised:
        read_reference_rows(replace(LOCATIONS, file=file))
    assert raised.value.where == str(file)


def test_a_missing_reference_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BaseFileError, match=r"cannot be read: No such file.*places\.jsonl"):
        read_reference_rows(replace(LOCATIONS, file=tmp_path / "places.jsonl"))


@pytest.mark.invariant("13.1")
def test_the_reference_has_a_row_for_each_place() -> None:
    rows = read_reference_rows(replace(LOCATIONS, file=DATA / "locations.jsonl"))
    assert rows.column_names == ["latitude", "longitude", "elevation", "name"]
    assert rows.num_rows == 6
    assert (Decimal("51.500000"), Decimal("-0.099991"), 9.0, "London, England") in map(
        tuple, (row.values() for row in rows.to_pylist())
    )


def test_a_reference_of_csv_has_a_row_for_each_line_after_its_header(tmp_path: Path) -> None:
    (reference,) = heart_rates.references
    file = tmp_path / "patients.csv"
    reference = replace(reference, file=file)
    file.write_bytes(b'mrn,name\r\n7,Ann\r\n8,"Lee, Bo"\r\n')
    assert read_reference_rows(reference).to_pylist() == [{"mrn": 7, "name": "Ann"}, {"mrn": 8, "name": "Lee, Bo"}]
    file.write_bytes(b"mrn,name\n7,Ann\nx,Bo\n")
    with pytest.raises(BaseFileError, match=r"Line 3: wrong_type, 'mrn'"):
        read_reference_rows(reference)
    file.write_bytes(b"name,mrn\nAnn,7\n")
    with pytest.raises(BaseFileError, match="The first line is not mrn,name"):
        read_reference_rows(reference)


def test_the_header_of_a_reference_is_in_the_encoding_of_its_lines(tmp_path: Path) -> None:
    (reference,) = heart_rates.references
    file = tmp_path / "patients.csv"
    columns = [reference.columns[0], replace(reference.columns[1], source="größe")]
    form = Csv(["mrn", "größe"], encoding="cp1252")
    reference = replace(reference, file=file, columns=columns, format=form, header="mrn,größe")
    file.write_bytes("mrn,größe\n7,groß\n".encode("cp1252"))
    assert read_reference_rows(reference).to_pylist() == [{"mrn": 7, "name": "groß"}]
