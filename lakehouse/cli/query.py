"""``query``: SQL over the tables, as text, CSV, JSON or Parquet, on standard output or in a file."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, Protocol, Self, TypeVar
from uuid import uuid4

import typer

from lakehouse.cli.arguments import JsonOption, examples, table_names
from lakehouse.cli.output import count_text, print_json, print_line, print_notice, print_table, spinner
from lakehouse.cli.table_session import load_settings
from lakehouse.errors import QueryError
from lakehouse.exports.row_texts import csv_line, json_line

if TYPE_CHECKING:
    from lakehouse.query import RunningQuery

_PART = 2_000  # rows that are fetched at a time
_ROW_GROUP = 100_000  # rows of a file in Parquet that a reader may skip together
commands = typer.Typer()

_MAX_ROWS = 1_000


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


def _parse_as_of(text: str | None) -> Any:
    if text is None:
        return None
    from lakehouse.ledger.versions import parse_point

    try:
        return parse_point(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


FormOption = Annotated[
    Literal["table", "csv", "jsonl", "parquet"] | None,
    typer.Option(
        "--format",
        help="How to print the rows; jsonl prints one JSON object per line. parquet needs --output.",
        show_default="table",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        dir_okay=False,
        metavar="FILE",
        help="Write the rows into this file, for csv, jsonl and parquet. It is replaced when it is complete.",
    ),
]
AsOfOption = Annotated[
    Any,
    typer.Option(
        "--as-of",
        callback=_parse_as_of,
        metavar="VERSION|TIME",
        help="Read an earlier version of a table, or the tables of the query as they were at a time in ISO 8601.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Show at most N rows; 0 shows all.",
        show_default=f"{_MAX_ROWS:,} as a table; all in other formats",
    ),
]


@commands.command(
    epilog=examples(
        "lakehouse query 'SELECT count(*) FROM temperatures'",
        "lakehouse query --as-of 2026-11-01T00:00:00Z 'FROM temperatures LIMIT 5'",
        "lakehouse query --format parquet --output rows.parquet 'FROM temperatures'",
    )
)
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement that only reads, in DuckDB's SQL.")],
    form: FormOption = None,
    output: OutputOption = None,
    as_of: AsOfOption = None,
    limit: LimitOption = None,
    csv: Annotated[bool, typer.Option("--csv", help="The same as --format csv.")] = False,
    json: JsonOption = False,
) -> None:
    """Run a SQL query over all tables and views, by their names, read-only.

    --json prints a list of objects, one per row. In JSON, DECIMAL values, NaN and infinities are text, so that they
    stay exact. In JSON and Parquet, each column needs its own name.
    """
    from lakehouse.discovery import declared_views
    from lakehouse.query import open_query

    chosen_form = _choose_form(form, output, csv=csv, json=json)
    settings = load_settings()
    progress = Progress(limit if limit is not None else _MAX_ROWS if chosen_form == "table" else 0)
    with (
        spinner("Querying", progress) as status,
        open_query(settings, sql, table_names(settings), as_of, declared_views(settings)) as running_query,
    ):
        if chosen_form not in ("table", "csv"):
            _require_unique_names(running_query.columns)
        if output:
            write_file(running_query, progress, chosen_form, output)
        else:
            print_rows(running_query, progress, chosen_form, status.stop)
        versions = running_query.versions
    if output:
        print_line(f"{output}: {count_text(progress.rows, 'row')}")
    for version in versions:
        print_notice(f"As of {version}.")
    if progress.has_more:
        print_notice(f"Only the first {count_text(progress.limit, 'row')} are shown; --limit 0 shows all.")


def _choose_form(form: str | None, output: Path | None, *, csv: bool, json: bool) -> str:
    """Return the form of the rows; anything that contradicts it is wrong usage."""
    choices = {"--format": form, "--csv": csv and "csv", "--json": json and "json"}
    chosen_options = [option for option, choice in choices.items() if choice]
    if len(chosen_options) > 1:
        raise typer.BadParameter(f"{' and '.join(chosen_options)} exclude each other", param_hint=chosen_options[0])
    chosen_form = str(choices[chosen_options[0]]) if chosen_options else "table"
    if output is None and chosen_form == "parquet":
        raise typer.BadParameter("parquet needs --output FILE", param_hint="--format")
    if output and chosen_form in ("table", "json"):
        raise typer.BadParameter("a file needs --format csv, jsonl or parquet", param_hint="--output")
    if output and not output.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {str(output.parent)!r}", param_hint="--output")
    if output and output.exists() and not output.is_file():
        raise typer.BadParameter(f"{str(output)!r} is not a file", param_hint="--output")
    return chosen_form


def _require_unique_names(columns: list[str]) -> None:
    """Refuse to lose a column: a JSON object has one value per name."""
    duplicate = next((name for name, occurrences in Counter(columns).items() if occurrences > 1), None)
    if duplicate is not None:
        raise QueryError(f"Several columns of the result are named {duplicate}", action="Name each of them with AS.")
