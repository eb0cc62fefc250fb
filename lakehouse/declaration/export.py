"""``Export``, the declaration of files that follow a table: checked when it is created."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path
from typing import Literal

from lakehouse.declaration.names import is_name, name_problems, spelling_hint
from lakehouse.declaration.rules.field_types import field_problems
from lakehouse.declaration.vocabulary import Day, Hour, Month, Year, fingerprint_of
from lakehouse.decoding.column_types import Problem
from lakehouse.errors import DeclarationError
from lakehouse.settings.store import Store

ExportFormat = Literal["parquet", "csv", "jsonl"]
Period = Hour | Day | Month | Year
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""What each row of changes has after the columns of the table: the names that Delta gives them."""


@dataclass(frozen=True)
class Export:
    """A folder of files with the rows of a table: all of them, or what changed since the last run.

    Grain: one row of a file per row of the table; with ``changes=True``, per change of a row. ``of`` names a declared
    table: a merged table, a change feed, a rollup, rejected records, a base or reference table, or a materialized view.
    A relative ``folder`` starts at ``LAKEHOUSE_EXPORTS``; by default it is the name of the export. ``by`` partitions
    the files by a period of a time column, in UTC. ``columns`` are those to write; by default all that do not start
    with an underscore. NULL stays NULL in Parquet and JSON lines, and is empty in CSV.

    Each run that finds news publishes one version of the export, by one manifest that names its files and the version
    of the table. A second run without news writes nothing. With ``changes=True``, the first version has every row, and
    each later one the changes after it; only a merged table or a change feed can be exported so. VACUUM waits for such
    an export while it is ``enabled``. An export that is not is never run, and nothing waits for it.
    """

    name: str
    of: str
    folder: str = ""
    format: ExportFormat = "parquet"
    by: Period | None = None
    columns: Sequence[str] = ()
    changes: bool = False
    enabled: bool = True
    doc: str = ""
    owner: str = "team:lakehouse"
    file: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Refuse what the declaration alone shows to be wrong; ``check_exports`` compares it with the tables."""
        for message, action in self._problems():
            raise _error(self, message, action)

    def _problems(self) -> Iterator[Problem]:
        yield from field_problems(self)
        yield from name_problems(self.name)
        yield from self._folder_problems()
        if not is_name(self.of):
            yield f"of={self.of!r} is not the name of a table", "Write the name of a declared table."
        if self.by and "/" in self.by.column:
            yield f"folders cannot be named by the column {self.by.column}: it has a slash", "Choose another column."
        for name, count in Counter(self.columns).items():
            if count > 1:
                yield f"{name} is listed twice in columns", "List it once."

    def _folder_problems(self) -> Iterator[Problem]:
        if Store(self.folder).is_address:
            message = "folder is a URI, but a manifest is published safely only on a local disk"
            yield message, "Name a folder on this machine, and copy it from there."
        if not self.folder.isprintable():
            yield "the name of the folder has a control character", "Choose another folder."
        try:
            Path(self.folder).expanduser()
        except RuntimeError:
            yield f"the home folder of {self.folder} is not known", "Name a user of this machine, or an absolute path."

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the declaration uses: its own, and those of its job and its sensor."""
        return (self.name, self.job_name, self.sensor_name)

    @property
    def job_name(self) -> str:
        """Name of the job that runs it."""
        return f"export_{self.name}"

    @property
    def sensor_name(self) -> str:
        """Name of the sensor that requests that job."""
        return f"{self.name}_sensor"

    @property
    def folder_name(self) -> str:
        """The folder as declared, or by default the name of the export."""
        return self.folder or self.name

    @property
    def fingerprint(self) -> str:
        """A hash of what decides which rows and values the files have."""
        period = (type(self.by).__name__, self.by.column) if self.by else ()
        return fingerprint_of(self.of, self.format, self.changes, tuple(self.columns), *period)


@dataclass(frozen=True)
class ExportedTable:
    """What a declaration shows of a table that can be exported.

    ``types`` are the types of its columns by name; ``None`` if they are known only when it exists. ``key`` are the
    columns that identify a row. ``has_changes``: whether its changes can be read. ``period`` is that of the column that
    partitions the table, if it has such a column.
    """

    types: Mapping[str, str] | None = None
    key: Sequence[str] = ()
    has_changes: bool = False
    period: object = None


def check_exports(exports: Iterable[Export], tables: Mapping[str, ExportedTable]) -> tuple[Export, ...]:
    """Return the exports, sorted by name; ``tables`` has every table that they can be of.

    Raises ``DeclarationError`` if an export is of an unknown table or column, if its table has no changes to export, if
    a column has another type than ``by`` needs, or if two exports have the same folder.
    """
    sorted_exports = tuple(sorted(exports, key=lambda export: export.name))
    for export in sorted_exports:
        for message, action in (*_problems_with_tables(export, tables), *_problems_with_others(export, sorted_exports)):
            raise _error(export, message, action)
    return sorted_exports


def _problems_with_others(export: Export, exports: Iterable[Export]) -> Iterator[Problem]:
    """Folders of other exports that are this one or contain it, as far as their names show."""
    folder = Path(normpath(export.folder_name))
    for other_export in exports:
        other_folder = Path(normpath(other_export.folder_name))
        if other_export.name != export.name and folder.is_relative_to(other_folder):
            relation = "has the same folder" if folder == other_folder else "has a folder that contains this one"
            yield f"the export {other_export.name} {relation}", "Give each its own folder, none within another."


def _problems_with_tables(export: Export, tables: Mapping[str, ExportedTable]) -> Iterator[Problem]:
    if export.of not in tables:
        yield f"unknown table {export.of}", f"{spelling_hint(export.of, tables)}It can be of {', '.join(tables)}."
        return
    table = tables[export.of]
    if export.changes and not table.has_changes:
        message = f"the changes of {export.of} are not kept: only a merged table and a change feed have them"
        yield message, "Remove changes=True: each run then writes all rows, if there is news."
    if table.types is not None:
        period_names = [export.by.name] if export.by and export.by == table.period else []
        yield from column_problems(export, table.types, table.key, period_names)


def column_problems(
    export: Export, types: Mapping[str, str], key: Sequence[str], period_names: Sequence[str]
) -> Iterator[Problem]:
    """What is wrong with the columns of an export of a table with these columns; ``types`` are those of Spark.

    The folders replace a column of their name, so only one of ``period_names`` may have it: it has their values.
    """
    for name in (*export.columns, *([export.by.column] if export.by else [])):
        if name not in types:
            columns = ", ".join(types)
            yield f"unknown column {name}", f"{spelling_hint(name, types)}The columns of {export.of} are {columns}."
            return
    missing_keys = [name for name in key if export.changes and export.columns and name not in export.columns]
    if missing_keys:
        yield f"columns has no {missing_keys[0]} of the key, so no change could be applied", "Add it to columns."
    if export.by and types[export.by.column] not in _types_of(export.by):
        needed_types = " or ".join(_types_of(export.by))
        message = f"by={type(export.by).__name__} needs a column of type {needed_types}"
        yield message, f"{export.by.column} is {types[export.by.column]}. Choose another column."
    if export.by and export.by.name in types and export.by.name not in period_names:
        message = f"the folders would be named {export.by.name}, as a column of {export.of}"
        yield message, "Partition by another period or column, or rename that column."


def _types_of(period: Period) -> tuple[str, ...]:
    return ("TIMESTAMP",) if isinstance(period, Hour) else ("TIMESTAMP", "DATE")


def _error(export: Export, message: str, action: str) -> DeclarationError:
    return DeclarationError(f"Export {export.name!r}: {message}", where=export.file, action=action)
