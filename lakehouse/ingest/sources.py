"""Base files to rows: folders of weather archives (Open-Meteo JSON, Parquet), and reference files.

Every value passes ``lakehouse.decoding.values``, the same rule as for the records of a topic. Rows are built on
the driver, a file at a time, as Arrow data; one row that cannot be loaded means that nothing is loaded.
"""

# ruff: noqa: PLC0415 - pyarrow is slow to import and most commands that know the tables read no base files

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.declaration import Reference
from lakehouse.decoding.fields import Field, Rejection, is_text
from lakehouse.decoding.records import decode, parse
from lakehouse.decoding.values import convert_value
from lakehouse.errors import BaseFileError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Columns = Mapping[str, Sequence[Any]]
"""The columns of a file by the names they have there, equally long."""

_UNITS = {"time": "iso8601", "temperature_2m": "°C"}


@dataclass(frozen=True)
class OpenMeteoFiles:
    """Folders of Open-Meteo archives: ``*.json``, one object a file, and ``*.parquet`` with the same rows.

    A JSON file has its place at the top and equally long arrays under ``hourly``; times are UTC. A Parquet
    file has a column for each field, named as in a record; its times are timestamps or text. Names that
    begin with ``.`` or ``_`` are passed over; any other file or folder is an error.
    """

    default_folder: Path

    def read(self, spark: "SparkSession", folder: Path, fields: Sequence[Field]) -> "DataFrame":
        """Return one row for each row of each file: its ``_file``, its ``_place`` there (from 0), the fields.

        A missing or null value is NULL. Writes nothing. Raises ``BaseFileError`` that names the file, and
        the row in it, that cannot be loaded.
        """
        import pyarrow as pa

        rows = pa.concat_tables(_read_file(file, fields) for file in _files(folder))
        return spark.createDataFrame(rows)


def read_reference(spark: "SparkSession", reference: Reference, file: Path | None = None) -> "DataFrame":
    """Return one row for each line of the reference's file of JSON lines; no key stands twice.

    Writes nothing. Raises ``BaseFileError`` that names the line that cannot be loaded.
    """
    path = file or reference.file
    fields = tuple(column.field for column in reference.columns)
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number, line in enumerate(_content(path).splitlines(), start=1):
        try:
            row = decode(line, fields)
        except Rejection as rejection:
            raise _refusal(path, f"Line {number}: {_said(rejection)}") from None
        key = tuple(row[name] for name in reference.key)
        if key in rows:
            raise _refusal(path, f"Line {number} repeats the key of a line before it")
        rows[key] = row
    columns = {field.name: [row[field.name] for row in rows.values()] for field in fields}
    return spark.createDataFrame(_arrow(columns, _types(fields)))


def _files(folder: Path) -> list[Path]:
    """List the files of a folder in the order of their names."""
    action = "Name a folder of Open-Meteo files (*.json, *.parquet)."
    if not folder.is_dir():
        raise BaseFileError("There is no such folder of base files", where=str(folder), action=action)
    files = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    if not files:
        raise BaseFileError("The folder holds no base files", where=str(folder), action=action)
    return files


def _read_file(file: Path, fields: Sequence[Field]) -> "pa.Table":
    """Read and convert every row of one file."""
    reader = _READERS.get(file.suffix.lower())
    if reader is None or not file.is_file():
        raise _refusal(file, "Neither a JSON nor a Parquet file")
    if not is_text(file.name):
        raise _refusal(file, "The name of the file is not UTF-8, and rows are stored with it")
    columns = reader(file)
    rows = len(next(iter(columns.values()), ()))
    for field in fields:
        if _named(field, columns) not in columns and field.default is None:
            raise _refusal(file, f"No {field.source!r} in the file")
    none = [None] * rows
    converted = {
        field.name: _convert_column(file, field, columns.get(_named(field, columns), none)) for field in fields
    }
    places = {"_file": [file.name] * rows, "_place": range(rows)}
    return _arrow(places | converted, {"_file": "STRING", "_place": "BIGINT"} | _types(fields))


def _named(field: Field, columns: Columns) -> str:
    """The name of a field in a file: the one that it has, or where that is missing, the one that it had."""
    (former,) = field.former or (field.source,)
    return former if field.source not in columns and former in columns else field.source


def _convert_column(file: Path, field: Field, values: Sequence[Any]) -> list[Any]:
    """Convert one column; values that are written alike are converted once."""
    known: dict[str, Any] = {}
    converted = []
    for place, raw in enumerate(values):
        written = repr(raw)
        if written not in known:
            try:
                known[written] = convert_value(raw, field)
            except Rejection as rejection:
                raise _refusal(file, f"Row {place}: {_said(rejection)}") from None
        converted.append(known[written])
    return converted


def _json_columns(file: Path) -> Columns:
    """Read one Open-Meteo object; the values of its place stand beside each hour."""
    try:
        archive = parse(_content(file))
    except Rejection as rejection:
        raise _refusal(file, _said(rejection)) from None
    hourly = archive.get("hourly")
    if not isinstance(hourly, dict) or not all(isinstance(values, list) for values in hourly.values()):
        raise _refusal(file, "No Open-Meteo archive: 'hourly' holds no arrays")
    lengths = {name: len(values) for name, values in hourly.items()}
    if len(set(lengths.values())) != 1:
        raise _refusal(file, f"The arrays of 'hourly' are not equally long: {lengths}")
    _check_units(file, archive)
    hours = next(iter(lengths.values()))
    return {name: [value] * hours for name, value in archive.items()} | hourly


def _check_units(file: Path, archive: Mapping[str, Any]) -> None:
    """Refuse local times and other units: the same numbers would mean something else."""
    if archive.get("utc_offset_seconds", 0) != 0:
        raise _refusal(file, f"Its times are {archive['utc_offset_seconds']} seconds away from UTC")
    units = archive.get("hourly_units", {})
    for name, unit in _UNITS.items():
        if isinstance(units, dict) and units.get(name, unit) != unit:
            raise _refusal(file, f"The unit of {name!r} is {units[name]!r}, expected {unit!r}")


def _parquet_columns(file: Path) -> Columns:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        table = ParquetFile(file).read()
        return {name: _plain(table.column(name)) for name in table.column_names}
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        raise _refusal(file, f"Not a readable Parquet file: {str(error).splitlines()[0]}") from None


def _plain(column: "pa.ChunkedArray") -> list[Any]:
    """Turn values into Python's; floats of 32 bits into the shortest decimal that means them."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us", column.type.tz)).to_pylist())
    if pa.types.is_float32(column.type):
        texts = column.cast(pa.string()).to_pylist()
        return [None if text is None else Decimal(text) for text in texts]
    return list(column.to_pylist())


_READERS = {".json": _json_columns, ".parquet": _parquet_columns}


def _types(fields: Sequence[Field]) -> dict[str, str]:
    return {field.name: field.type for field in fields}


def _arrow(columns: Columns, types: Mapping[str, str]) -> "pa.Table":
    """Build an Arrow table whose columns have the given Spark SQL types."""
    import pyarrow as pa

    from lakehouse.decoding.arrow_types import arrow_type

    return pa.table({name: pa.array(columns[name], arrow_type(type_)) for name, type_ in types.items()})


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _refusal(file, f"The file cannot be read: {error.strerror}") from None


def _said(rejection: Rejection) -> str:
    return f"{rejection.reason}, {rejection.detail}"


def _refusal(file: Path, fact: str) -> BaseFileError:
    return BaseFileError(fact, where=str(file), action="Nothing was loaded: correct the file or take it away.")
