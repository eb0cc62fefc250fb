"""The formats of the files of exports: each writes batches of Arrow into an open file."""

from datetime import UTC
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from lakehouse.exports.row_texts import csv_fields, csv_line, json_line

_TIME = pa.timestamp("us", "UTC")
_GROUP_ROWS, _GROUP_BYTES = 100_000, 2**26  # of a row group of Parquet


class Form(Protocol):
    """Writes rows into an open file."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Write some rows."""

    def close(self) -> None:
        """Write what ends the file, which stays open."""


class _Parquet:
    """Writes row groups, each of many rows unless they are large."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = ParquetWriter(file, schema, compression="zstd")
        self._group: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._group.append(rows)
        self._rows += len(rows)
        self._bytes += rows.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        if self._group:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._group), row_group_size=self._rows)
        self._group.clear()
        self._rows = self._bytes = 0


class _Csv:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file
        file.write(csv_line(schema.names).encode())

    def write(self, rows: pa.RecordBatch) -> None:
        columns = (csv_fields(_values(column)) for column in rows.columns)
        self._file.write("".join(f"{','.join(fields)}\n" for fields in zip(*columns, strict=True)).encode())

    def close(self) -> None:
        pass


class _JsonLines:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file, self._names = file, schema.names

    def write(self, rows: pa.RecordBatch) -> None:
        values = zip(*map(_values, rows.columns), strict=True)
        lines = (json_line(dict(zip(self._names, row, strict=True))) for row in values)
        self._file.write("".join(lines).encode())

    def close(self) -> None:
        pass


def _values(column: pa.Array) -> list[Any]:
    """The values of a column for Python. Times in UTC get their zone here: Arrow takes three times as long (seen)."""
    if column.type == _TIME:
        times = column.cast(pa.timestamp("us")).to_pylist()
        return [None if time is None else time.replace(tzinfo=UTC) for time in times]
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return values


FORMS: dict[str, type[_Parquet | _Csv | _JsonLines]] = {"parquet": _Parquet, "csv": _Csv, "jsonl": _JsonLines}
