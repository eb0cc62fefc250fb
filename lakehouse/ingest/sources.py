"""Base files to rows: folders of weather archives (Open-Meteo JSON, Parquet), and reference files.

Every value is converted by ``lakehouse.decoding.values``, with the same rules as the records of a topic. Rows are built
on the driver as Arrow data, one file at a time. If one row cannot be loaded, nothing is loaded.
"""

# ruff: noqa: PLC0415 - pyarrow is slow to import, and most commands read no base files

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.declaration import Reference
from lakehouse.decoding.fields import Field, Rejection, is_text
from lakehouse.decoding.records import parse
from lakehouse.decoding.values import convert, convert_value
from lakehouse.errors import BaseFileError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Columns = Mapping[str, Sequence[Any]]
"""The columns of a file by their names in the file; all have the same length."""

_UNITS = {"time": "iso8601", "temperature_2m": "°C"}


@dataclass(frozen=True)
class OpenMeteoFiles:
    """Folders of Open-Meteo archives: ``*.json``, one object per file, and ``*.parquet`` with the same rows.

    A JSON file has its location at the top level, and arrays of equal length under ``hourly``; times are UTC. A Parquet
    file has a column for each field, named as in a record; its times are timestamps or text. Names that begin with
    ``.`` or ``_`` are ignored; any other file or folder is an error.
    """

    default_folder: Path

    def read(self, spark: "SparkSession", folder: Path, fields: Sequence[Field]) -> "DataFrame":
        """Return one row for each row of each file: its ``_file``, its ``_place`` in it (from 0), and the fields.

        A missing or null value is NULL. Writes nothing. If a row cannot be loaded, raises ``BaseFileError`` with the
        file and the row.
        """
        import pyarrow as pa

        rows = pa.concat_tables(_read_file(file, fields) for file in _files(folder))
        return spark.createDataFrame(rows)


def read_reference_rows(reference: Reference) -> "pa.Table":
    """Return one row for each line of the reference's file; each key is unique.

    Writes nothing. If a line cannot be loaded, raises ``BaseFileError`` with its number.
    """
    path, parse_line, fields = reference.file, reference.format.parser(), reference.fields
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    lines = _read_bytes(path).splitlines()
    if reference.header and lines[:1] != [reference.header.encode(reference.format.encoding)]:
        raise _file_error(path, f"The first line is not {reference.header}")
    for number, line in enumerate(lines[bool(reference.header) :], start=1 + bool(reference.header)):
        try:
            row = convert(parse_line(line), fields)
        except Rejection as rejection:
            raise _file_error(path, f"Line {number}: {_describe(rejection)}") from None
        key = tuple(row[name] for name in reference.key)
        if key in rows:
            raise _file_error(path, f"Line {number} repeats the key of an earlier line")
        rows[key] = row
    columns = {field.name: [row[field.name] for row in rows.values()] for field in fields}
    return _to_arrow(columns, {field.name: field.type for field in fields})


def _files(folder: Path) -> list[Path]:
    """List the files of a folder in the order of their names."""
    action = "Put Open-Meteo files (*.json, *.parquet) there, or name another folder."
    if not folder.is_dir():
        raise BaseFileError("The folder of base files does not exist", where=str(folder), action=action)
    files = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    if not files:
        raise BaseFileError("The folder has no base files", where=str(folder), action=action)
    return files


def _read_file(file: Path, fields: Sequence[Field]) -> "pa.Table":
    """Read and convert every row of one file."""
    reader = _READERS.get(file.suffix.lower())
    if reader is None or not file.is_file():
        raise _file_error(file, "This is neither a JSON nor a Parquet file")
    if not is_text(file.name):
        raise _file_error(file, "The name of the file is not UTF-8, but it is stored with the rows")
    columns = reader(file)
    rows = len(next(iter(columns.values()), ()))
    for field in fields:
        if _column_name(field, columns) not in columns and field.limits.default is None:
            raise _file_error(file, f"The file has no {field.source!r}")
    nulls = [None] * rows
    values = {
        field.name: _convert_column(file, field, columns.get(_column_name(field, columns), nulls)) for field in fields
    }
    places = {"_file": [file.name] * rows, "_place": range(rows)}
    types = {field.name: field.type for field in fields}
    return _to_arrow(places | values, {"_file": "STRING", "_place": "BIGINT"} | types)


def _column_name(field: Field, columns: Columns) -> str:
    """Return the name of a field in a file: its current name, or its former name if only that is present."""
    (former_name,) = field.place.former or (field.source,)
    return former_name if field.source not in columns and former_name in columns else field.source


def _convert_column(file: Path, field: Field, values: Sequence[Any]) -> list[Any]:
    """Convert one column; values with the same representation are converted once."""
    cache: dict[str, Any] = {}
    converted_values = []
    for place, value in enumerate(values):
        key = repr(value)
        if key not in cache:
            try:
                cache[key] = convert_value(value, field)
            except Rejection as rejection:
                raise _file_error(file, f"Row {place}: {_describe(rejection)}") from None
        converted_values.append(cache[key])
    return converted_values


def _json_columns(file: Path) -> Columns:
    """Read one Open-Meteo object; each hour gets the values of its location."""
    try:
        archive = parse(_read_bytes(file))
    except Rejection as rejection:
        raise _file_error(file, _describe(rejection)) from None
    hourly = archive.get("hourly")
    if not isinstance(hourly, dict) or not all(isinstance(values, list) for values in hourly.values()):
        raise _file_error(file, "This is not an Open-Meteo archive: 'hourly' has no arrays")
    lengths = {name: len(values) for name, values in hourly.items()}
    if len(set(lengths.values())) != 1:
        raise _file_error(file, f"The arrays of 'hourly' differ in length: {lengths}")
    _check_units(file, archive)
    hours = next(iter(lengths.values()))
    return {name: [value] * hours for name, value in archive.items()} | hourly


def _check_units(file: Path, archive: Mapping[str, Any]) -> None:
    """Refuse local times and other units: the numbers would have another meaning."""
    if archive.get("utc_offset_seconds", 0) != 0:
        raise _file_error(file, f"The times in the file differ from UTC by {archive['utc_offset_seconds']} seconds")
    units = archive.get("hourly_units", {})
    for name, unit in _UNITS.items():
        if isinstance(units, dict) and units.get(name, unit) != unit:
            raise _file_error(file, f"The unit of {name!r} is {units[name]!r}, expected {unit!r}")


def _parquet_columns(file: Path) -> Columns:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        table = ParquetFile(file).read()
        return {name: _to_python(table.column(name)) for name in table.column_names}
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        raise _file_error(file, f"The file is not a readable Parquet file: {str(error).splitlines()[0]}") from None


def _to_python(column: "pa.ChunkedArray") -> list[Any]:
    """Convert values to Python values; a 32-bit float becomes the shortest decimal that represents it."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us", column.type.tz)).to_pylist())
    if pa.types.is_float32(column.type):
        texts = column.cast(pa.string()).to_pylist()
        return [None if text is None else Decimal(text) for text in texts]
    return list(column.to_pylist())


_READERS = {".json": _json_columns, ".parquet": _parquet_columns}


def _to_arrow(columns: Columns, types: Mapping[str, str]) -> "pa.Table":
    """Build an Arrow table whose columns have the given Spark SQL types."""
    import pyarrow as pa

    from lakehouse.decoding.arrow_types import arrow_type

    return pa.table({name: pa.array(columns[name], arrow_type(type_)) for name, type_ in types.items()})


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _file_error(file, f"The file cannot be read: {error.strerror}") from None


def _describe(rejection: Rejection) -> str:
    return f"{rejection.reason}, {rejection.detail}"


def _file_error(file: Path, fact: str) -> BaseFileError:
    return BaseFileError(fact, where=str(file), action="Nothing was loaded. Correct the file or remove it.")
