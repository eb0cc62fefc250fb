"""``compare``: whether a table equals the table of the database that it follows."""

import re
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import JsonOption, TableArgument, examples, select_table
from lakehouse.cli.output import count_text, print_json, print_line, print_notice, print_table, spinner, track_phases
from lakehouse.cli.table_session import load_settings

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.operations.compare import Comparison, Difference, Progress

_SECONDS_PER_TEXT = 1.0
commands = typer.Typer()

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
        show_default="LAKEHOUSE_DATABASE_URL",
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source", metavar="SCHEMA.TABLE", help="The table in the database.", show_default="end of the topic"
    ),
]
WaitOption = Annotated[
    float, typer.Option("--wait", min=0.0, metavar="SECONDS", help="Report differences that last as long.")
]
_MAX_SHOWN = 20
_SOURCE = re.compile(r"[^.]+(\.[^.]+)?")


class PassFigures:
    """The newest progress; its text changes at most once a second, however often it is asked for."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._text, self._next_change = "", 0.0

    def show(self, progress: "Progress") -> None:
        """Take over a progress."""
        self._progress = progress

    def __str__(self) -> str:
        """The progress of at most a second ago; empty before the first."""
        if self._progress and monotonic() >= self._next_change:
            self._text, self._next_change = progress_text(self._progress), monotonic() + _SECONDS_PER_TEXT
        return self._text


def progress_text(progress: "Progress") -> str:
    """The rows of an estimate, and the pass of how many."""
    expected_text = "" if progress.expected_rows is None else f"{progress.rows:,} of about "
    rows = count_text(progress.rows if progress.expected_rows is None else progress.expected_rows, "row")
    return f"{expected_text}{rows} of {progress.table}, pass {progress.number} of at most {progress.max_number}"


@commands.command(epilog=examples("lakehouse compare items --database postgresql://reader@db:5432/shop"))
def compare(
    name: TableArgument = None,
    database: DatabaseOption = None,
    source: SourceOption = None,
    wait: WaitOption = 10.0,
    json: JsonOption = False,
) -> None:
    """Compare a table with the PostgreSQL table that it follows, value by value. Exit code 1 if they differ.

    Reads both by hashes, then the rows whose hashes differ. Changes nothing, and locks no row. The database may change
    meanwhile: only rows that stay wrong for --wait seconds are reported. Merge before, or let Dagster merge.
    Needs no Spark, and the extra postgres of the package.
    """
    from lakehouse.operations.compare import Source, source_name
    from lakehouse.operations.compare import compare as compare_tables

    settings = load_settings()
    table = select_table(settings, name)
    url = database or (settings.database_url.get_secret_value() if settings.database_url else "")
    if not url.startswith(("postgresql://", "postgres://")):
        problem = "expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE, here or in LAKEHOUSE_DATABASE_URL"
        raise typer.BadParameter(problem, param_hint="--database")
    name_in_database = source or source_name(table)
    if not _SOURCE.fullmatch(name_in_database):
        raise typer.BadParameter(f"{name_in_database!r} is not SCHEMA.TABLE", param_hint="--source")
    figures = PassFigures()
    with track_phases(), spinner("Comparing", figures):
        comparison = compare_tables(settings, table, Source(url, name_in_database), wait, figures.show)
    if json:
        print_json(_as_json(comparison))
    else:
        _show(table, name_in_database, comparison)
    if not comparison.is_equal:
        raise typer.Exit(1)


def _show(table: "StreamTable", name_in_database: str, comparison: "Comparison") -> None:
    if comparison.other_names:
        names = ", ".join(comparison.other_names)
        print_notice(
            f"Not compared, because they are not in the database, or of a type that cannot be compared: {names}."
        )
    database_rows = f"{count_text(comparison.database_rows, 'row')} of {name_in_database}"
    rows = f"{database_rows}, {comparison.table_rows:,} of {table.name}"
    if comparison.is_equal:
        print_line(f"Equal: {rows}.")
        return
    shown_differences = [row for item in comparison.differences for row in _difference_rows(item, comparison.names)]
    title = f"What differs: {rows}"
    columns = [", ".join(comparison.key), "column", "database", "table"]
    print_table(columns, shown_differences[:_MAX_SHOWN], title=title)
    omitted_count = len(shown_differences) - _MAX_SHOWN
    if omitted_count > 0:
        print_notice(f"{omitted_count:,} more values differ.")
    if comparison.is_part:
        print_notice(
            "So many rows differ that only a part was compared: the table lags, or most of its rows are wrong."
        )
    print_line(f"If the table lags, first run: lakehouse merge {table.name}. Else see docs/how-to/change-streams.md.")


def _difference_rows(difference: "Difference", names: tuple[str, ...]) -> list[list[Any]]:
    key = ", ".join(map(str, difference.key))
    if difference.table is None or difference.database is None:
        if difference.database_rows and difference.table_rows:
            return [[key, "(rows)", f"{difference.database_rows:,}", f"{difference.table_rows:,}"]]
        states = ("exists", "is missing") if difference.table is None else ("is missing", "exists")
        return [[key, "(row)", *states]]
    return [[key, name, database, table] for name, database, table in difference.columns(names)]


def _as_json(comparison: "Comparison") -> dict[str, Any]:
    return {
        "database_rows": comparison.database_rows,
        "table_rows": comparison.table_rows,
        "is_part": comparison.is_part,
        "not_compared": list(comparison.other_names),
        "differences": [
            {
                "key": list(difference.key),
                "in_database": difference.database_rows > 0,
                "in_table": difference.table_rows > 0,
                "database_rows": difference.database_rows,
                "table_rows": difference.table_rows,
                "columns": {name: [database, table] for name, database, table in difference.columns(comparison.names)},
            }
            for difference in comparison.differences
        ],
    }
