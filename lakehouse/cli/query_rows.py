"""The rows of a query on their way to the terminal or into a file, in parts: how many there are so far."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self, TypeVar
from uuid import uuid4

from lakehouse.cli.output import count_text, print_json, print_line, print_table
from lakehouse.errors import QueryError
from lakehouse.exports.row_texts import csv_line, json_line

if TYPE_CHECKING:
    from lakehouse.query import RunningQuery

_PART = 2_000  # rows that are fetched at a time
_ROW_GROUP = 100_000  # rows of a file in Parquet that a reader may skip together


class _Part(Protocol):
    """Some rows: a list, or a batch of Arrow."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Self: ...


PartT = TypeVar("PartT", bound=_Part)


@dataclass
class Progress:
    """How many rows were fetched, up to a limit (0 is none), and for how long."""

    limit: int
    rows: int = 0
    has_more: bool = False
    start: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        """The figures next to the spinner."""
        return f"{time.monotonic() - self.start:.0f} s, {count_text(self.rows, 'row')}"

    def part_size(self, largest: int) -> int:
        """How many rows to fetch at a time: no more than the limit needs."""
        return min(largest, self.limit + 1) if self.limit else largest

    def count(self, parts: Iterable[PartT]) -> Iterator[PartT]:
        """Yield the parts, up to the limit."""
        for part in parts:
            shown_part = part[: self.limit - self.rows] if self.limit else part
            self.rows += len(shown_part)
            self.has_more = len(shown_part) < len(part)
            if len(shown_part):
                yield shown_part
            if self.has_more:
                return


def print_rows(
    running_query: "RunningQuery", progress: Progress, form: str, stop_spinner: Callable[[], object]
) -> None:
    """Print the rows; in a terminal, the first of them replace the spinner."""
    parts = progress.count(running_query.parts(progress.part_size(_PART)))
    columns = running_query.columns
    if form in ("csv", "jsonl"):
        for text in _lines(columns, parts, form):
            if sys.stdout.isatty():
                stop_spinner()
            sys.stdout.write(text)
        return
    rows = [row for part in parts for row in part]
    stop_spinner()
    if form == "json":
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows, exact=True)
        print_line(count_text(len(rows), "row"))


def _lines(columns: Sequence[str], parts: Iterable[list[tuple[Any, ...]]], form: str) -> Iterator[str]:
    """The lines of each part, the header of CSV before the first."""
    header = csv_line(columns) if form == "csv" else ""
    for part in parts:
        yield header + "".join(
            csv_line(row) if form == "csv" else json_line(dict(zip(columns, row, strict=True))) for row in part
        )
        header = ""
    yield header


def write_file(running_query: "RunningQuery", progress: Progress, form: str, path: Path) -> None:
    """Write the rows next to a file, which they replace when they are complete; ``QueryError`` if that fails."""
    with _complete_file(path.resolve()) as file:
        if form == "parquet":
            _write_parquet(running_query, progress, file)
            return
        parts = progress.count(running_query.parts(progress.part_size(_PART)))
        for text in _lines(running_query.columns, parts, form):
            file.write(text.encode())


@contextmanager
def _complete_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file next to a path, which takes its place at the end; it is removed if the body fails."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        action = "Make room there, or choose another place."
        raise QueryError(
            f"The rows cannot be written: {error.strerror or error}", where=str(path), action=action
        ) from None
    finally:
        with suppress(OSError):  # also if there is none
            draft.unlink()


def _write_parquet(running_query: "RunningQuery", progress: Progress, file: BinaryIO) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema, batches = running_query.batches(progress.part_size(_ROW_GROUP))
    try:
        with ParquetWriter(file, schema, compression="zstd") as writer:
            for batch in progress.count(batches):
                writer.write_batch(batch)
    except pa.ArrowException as error:
        action = "Cast the column to another type, such as VARCHAR."
        raise QueryError(f"The rows cannot be written as Parquet: {error}", action=action) from None
