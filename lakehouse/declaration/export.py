"""``Export``, the declaration of files that follow a table: checked when it is created."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path
from typing import Literal, TypeVar

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


T = TypeVar("T", bound="OutletParts")


@dataclass(frozen=True)
class OutletParts:
    """What takes the rows of a table out of the lakehouse, and follows it: an ``Export`` or a ``Sink``.

    ``of`` names the table. VACUUM waits for an outlet of changes while it is ``enabled``. One that is not is never run,
    and nothing waits for it.
    """

    name: str
    of: str
    enabled: bool = field(default=True, kw_only=True)
    doc: str = field(default="", kw_only=True)
    owner: str = field(default="team:lakehouse", kw_only=True)
    file: str = field(default="", compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse what the declaration alone shows to be wrong; ``check_outlets`` compares it with the tables."""
        for message, action in self.own_problems():
            raise outlet_error(self, message, action)

    def own_problems(self) -> Iterator[Problem]:
        """What is wrong with it, with any table."""
        yield from field_problems(self)
        yield from name_problems(self.name)
        if not is_name(self.of):
            yield f"of={self.of!r} is not the name of a table", "Write the name of a declared table."

    def table_problems(self, table: "OutletTable") -> Iterator[Problem]:
        """What is wrong with it for its table."""
        raise NotImplementedError

    def rival_problems(self, rival: "OutletParts") -> Iterator[Problem]:
        """What is wrong with it because of another outlet."""
        raise NotImplementedError

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


@dataclass(frozen=True)
class Export(OutletParts):
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

    folder: str = ""
    format: ExportFormat = "parquet"
    by: Period | None = None
    columns: Sequence[str] = ()
    changes: bool = False

    def own_problems(self) -> Iterator[Problem]:
        """What is wrong with it, with any table."""
        yield from super().own_problems()
        yield from self._folder_problems()
        if self.by and "/" in self.by.column:
            yield f"folders cannot be named by the column {self.by.column}: it has a slash", "Choose another column."
        yield from listed_twice(self.columns)

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

    def table_problems(self, table: "OutletTable") -> Iterator[Problem]:
        """Columns that the table has not, or not as the export needs them, and changes that it does not keep."""
        if self.changes and not table.has_changes:
            message = f"the changes of {self.of} are not kept: only a merged table and a change feed have them"
            yield message, "Remove changes=True: each run then writes all rows, if there is news."
        if table.types is not None:
            period_names = [self.by.name] if self.by and self.by == table.period else []
            yield from column_problems(self, table.types, table.key, period_names)

    def rival_problems(self, rival: OutletParts) -> Iterator[Problem]:
        """Whether another export has this folder or one that contains it, as far as their names show."""
        if not isinstance(rival, Export):
            return
        folder, other_folder = Path(normpath(self.folder_name)), Path(normpath(rival.folder_name))
        if folder.is_relative_to(other_folder):
            relation = "has the same folder" if folder == other_folder else "has a folder that contains this one"
            yield f"the export {rival.name} {relation}", "Give each its own folder, none within another."

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
class OutletTable:
    """What a declaration shows of a table that an outlet can follow.

    ``types`` are the types of its columns by name; ``None`` if they are known only when it exists. ``key`` are the
    columns by which it is merged. ``has_changes``: whether its changes can be exported. ``period`` is that of the
    column that partitions the table, if it has such a column. ``identity`` are the columns that identify a row for a
    sink, as ``row_identity`` returns them; empty if a sink cannot follow it.
    """

    types: Mapping[str, str] | None = None
    key: Sequence[str] = ()
    has_changes: bool = False
    period: object = None
    identity: Sequence[str] = ()


def check_outlets(outlets: Iterable[T], tables: Mapping[str, OutletTable]) -> tuple[T, ...]:
    """Return the outlets, sorted by name; ``tables`` has every table that they can be of.

    Raises ``DeclarationError`` if an outlet is of an unknown table or column, if its table has not what it needs, or if
    two outlets write to the same place.
    """
    sorted_outlets = tuple(sorted(outlets, key=lambda outlet: outlet.name))
    for outlet in sorted_outlets:
        for message, action in (*_table_problems(outlet, tables), *_rival_problems(outlet, sorted_outlets)):
            raise outlet_error(outlet, message, action)
    return sorted_outlets


def _table_problems(outlet: OutletParts, tables: Mapping[str, OutletTable]) -> Iterator[Problem]:
    if outlet.of in tables:
        yield from outlet.table_problems(tables[outlet.of])
    else:
        yield f"unknown table {outlet.of}", f"{spelling_hint(outlet.of, tables)}It can be of {', '.join(tables)}."


def _rival_problems(outlet: OutletParts, outlets: Iterable[OutletParts]) -> Iterator[Problem]:
    for rival in outlets:
        if rival.name != outlet.name:
            yield from outlet.rival_problems(rival)


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


def outlet_error(outlet: OutletParts, message: str, action: str) -> DeclarationError:
    """Return the error of a declaration."""
    return DeclarationError(f"{type(outlet).__name__} {outlet.name!r}: {message}", where=outlet.file, action=action)


def listed_twice(columns: Iterable[str]) -> Iterator[Problem]:
    """Columns that a list names more than once."""
    for name, count in Counter(columns).items():
        if count > 1:
            yield f"{name} is listed twice in columns", "List it once."
