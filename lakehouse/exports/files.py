"""Writes the rows of an export into files: one partition after another, one file at a time."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from itertools import count, groupby
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from lakehouse.exports.manifests import ExportedFile, file_name
from lakehouse.exports.row_texts import csv_fields, csv_line, json_line
from lakehouse.ledger.durability import sync_path

_TIME = pa.timestamp("us", "UTC")
_GROUP_ROWS, _GROUP_BYTES = 100_000, 2**26  # of a row group of Parquet
PARTITION = "_partition"  # the first column of rows: the name of the folder of each; NULL without partitions
_MAX_ROWS = 1_000_000  # of a file


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
        columns = (csv_fields(python_values(column)) for column in rows.columns)
        self._file.write("".join(f"{','.join(fields)}\n" for fields in zip(*columns, strict=True)).encode())

    def close(self) -> None:
        pass


class _JsonLines:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file, self._names = file, schema.names

    def write(self, rows: pa.RecordBatch) -> None:
        values = zip(*map(python_values, rows.columns), strict=True)
        lines = (json_line(dict(zip(self._names, row, strict=True))) for row in values)
        self._file.write("".join(lines).encode())

    def close(self) -> None:
        pass


def python_values(column: pa.Array) -> list[Any]:
    """The values of a column for Python. Times in UTC get their zone here: Arrow takes three times as long (seen)."""
    if column.type == _TIME:
        times = column.cast(pa.timestamp("us")).to_pylist()
        return [None if time is None else time.replace(tzinfo=UTC) for time in times]
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return values


FORMS: dict[str, type[_Parquet | _Csv | _JsonLines]] = {"parquet": _Parquet, "csv": _Csv, "jsonl": _JsonLines}


@dataclass(frozen=True)
class FilePlan:
    """Where the files of one version go, and their names and form. ``sync``: they are synced to the disk."""

    folder: Path
    name: str
    version: int
    attempt: str
    form: str
    sync: bool


def write_files(batches: Iterable[pa.RecordBatch], plan: FilePlan) -> Iterator[ExportedFile]:
    """Write rows, sorted by their partition, and yield each file when it is complete and, with ``sync``, on the disk.

    The names of the files and of their folders are on the disk only after ``sync_names``.
    """
    numbers = count()
    for partition, parts in groupby(_split(batches), key=lambda part: part[0]):
        rows = _Rows(part for _, part in parts)
        while rows.has_more():
            name = file_name(plan.name, plan.version, plan.attempt, next(numbers), plan.form)
            yield write_file(Path(partition or "", name), rows, plan)


def write_file(path: Path, rows: "_Rows", plan: FilePlan) -> ExportedFile:
    """Write one file, of as many rows as it may have."""
    written_rows = 0
    (plan.folder / path).parent.mkdir(exist_ok=True)
    with _complete_file(plan.folder / path, sync=plan.sync) as file:
        form: Form | None = None
        for part in rows.take(_MAX_ROWS):
            form = form or FORMS[plan.form](file, part.schema)
            form.write(part)
            written_rows += len(part)
        if form:
            form.close()
    return ExportedFile(path=str(path), rows=written_rows, bytes=(plan.folder / path).stat().st_size)


@contextmanager
def _complete_file(path: Path, *, sync: bool) -> Iterator[BinaryIO]:
    """Create a file; it must not exist."""
    with path.open("xb") as file:
        yield file
        file.flush()
        if sync:
            sync_file(file)


def sync_file(file: BinaryIO) -> None:
    """Write the contents of a file to the disk."""
    os.fsync(file.fileno())


def sync_names(folder: Path, files: Iterable[ExportedFile]) -> None:
    """Write the names of files, and those of their folders, to the disk."""
    for place in sorted({(folder / file.path).parent for file in files} | {folder, folder.parent}, reverse=True):
        sync_path(place)


class _Rows:
    """The batches of one partition, which may be taken in portions."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest = next(batches, None)

    def has_more(self) -> bool:
        """Whether there are rows that were not taken."""
        return self._rest is not None

    def take(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Take the next rows, at most ``limit``."""
        while self._rest is not None and limit:
            part = self._rest[:limit]
            self._rest = self._rest[limit:] if len(self._rest) > limit else next(self._batches, None)
            limit -= len(part)
            yield part


def _split(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Yield the rows without their partition, split where it changes."""
    for batch in batches:
        rows, start = batch.drop_columns([PARTITION]), 0
        for partition, values in groupby(batch.column(PARTITION).to_pylist()):
            end = start + sum(1 for _ in values)
            yield partition, rows[start:end]
            start = end
