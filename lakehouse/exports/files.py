"""Writes the rows of an export into files: one partition after another, one file at a time."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from lakehouse.exports.forms import FORMS, Form
from lakehouse.exports.leftovers import file_name
from lakehouse.exports.manifests import ExportedFile, sync_folder

PARTITION = "_partition"  # the first column of rows: the name of the folder of each; NULL without partitions
_MAX_ROWS = 1_000_000  # of a file


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
        sync_folder(place)


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
