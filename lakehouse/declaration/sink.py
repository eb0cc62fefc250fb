"""``Sink``, the declaration of a target that follows a table row by row: checked when it is created."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from lakehouse.declaration.export import Export, OutletParts, OutletTable, listed_twice
from lakehouse.declaration.names import RECORD, spelling_hint
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem

_FEED_IDENTITY = ("source_table_id", "source_version")
_POSTGRES_BYTES = 63
_SQL_SERVER_CHARACTERS = 128
_PLAIN_NAME = re.compile(r'[^\x00-\x1f\x7f."]+(\.[^\x00-\x1f\x7f."]+)?')
_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,240}")  # the name with ".progress" is one too
_DATA_EXPLORER_NAME = re.compile(r"(?!lakehouse_progress$)(?!.*_lakehouse_\d)[A-Za-z0-9_-]{1,200}")
_DATA_EXPLORER_COLUMN = re.compile(r"[\w .-]{1,1000}")
_OWN_TABLES = ("lakehouse_progress", "lakehouse_unfit")


@dataclass(frozen=True)
class DatabaseTable:
    """A table of a database, which the sink creates and alone writes.

    ``name`` is ``TABLE`` or ``SCHEMA.TABLE``. ``database`` names the URL of the database in ``LAKEHOUSE_SINK_URLS``.
    """

    product: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]]
    """What the URL of the database starts with."""
    default_schema: ClassVar[str]

    name: str
    database: str

    @property
    def place(self) -> str:
        """Where the rows go, safe to show; two sinks never have the same."""
        return f"table {self.full_name} in {self.database}"

    @property
    def full_name(self) -> str:
        """The name with its schema."""
        return self.name if "." in self.name else f"{self.default_schema}.{self.name}"

    def name_problems(self, columns: Sequence[str]) -> Iterator[Problem]:
        """Names that the database would cut or that have other meanings; ``columns`` are those of the sink."""
        if not _PLAIN_NAME.fullmatch(self.name):
            yield f"{self.name!r} is not the name of a table", "Write TABLE or SCHEMA.TABLE, without quotes."
        if self.full_name.partition(".")[2] in _OWN_TABLES:
            yield f"sinks have a table {self.name} of their own", "Choose another name."
        for name in (*self.name.split("."), *columns):
            if limit := self.limit_of(name):
                yield (
                    f"{self.product} cannot hold the name {name}, which is longer than {limit}",
                    "Choose a shorter name.",
                )

    def limit_of(self, name: str) -> str:
        """The limit of names, if one is longer; else empty."""
        raise NotImplementedError


@dataclass(frozen=True)
class PostgresTable(DatabaseTable):
    """A table of a PostgreSQL database, which the sink creates and alone writes.

    ``name`` is ``TABLE`` or ``SCHEMA.TABLE``; without a schema it is in ``public``. ``database`` names the URL of the
    database in ``LAKEHOUSE_SINK_URLS``.
    """

    product = "PostgreSQL"
    schemes = ("postgresql", "postgres")
    default_schema = "public"

    database: str = "postgres"

    def limit_of(self, name: str) -> str:
        """PostgreSQL cuts a longer name."""
        return "63 bytes" if len(name.encode()) > _POSTGRES_BYTES else ""


@dataclass(frozen=True)
class SqlServerTable(DatabaseTable):
    """A table of a SQL Server or Azure SQL database, which the sink creates and alone writes.

    ``name`` is ``TABLE`` or ``SCHEMA.TABLE``; without a schema it is in ``dbo``. ``database`` names the URL of the
    database in ``LAKEHOUSE_SINK_URLS``.
    """

    product = "SQL Server"
    schemes = ("mssql",)
    default_schema = "dbo"

    database: str = "sqlserver"

    def name_problems(self, columns: Sequence[str]) -> Iterator[Problem]:
        """Also names that a database without regard to case takes for the same."""
        yield from super().name_problems(columns)
        for name in (*self.name.split("."), *columns):
            if name.endswith(" "):
                yield f"SQL Server ignores the space at the end of {name!r}", "Choose another name."
        names = [name.lower() for name in columns]
        for name in (name for name in columns if names.count(name.lower()) > 1):
            yield f"SQL Server has one name for {name} and another case of it", "Rename a column."

    def limit_of(self, name: str) -> str:
        """SQL Server refuses a longer name."""
        return "128 characters" if len(name) > _SQL_SERVER_CHARACTERS else ""


@dataclass(frozen=True)
class ChangesTopic:
    """A Kafka topic with every change of a row, which the sink creates with ``partitions`` and alone writes.

    The key of a record is the identity of the row, as JSON, its value the row, as JSON. A deleted row is a record
    without a value. The progress is in the topic ``NAME.progress``.
    """

    name: str
    partitions: int = 1

    @property
    def place(self) -> str:
        """Where the rows go, safe to show; two sinks never have the same."""
        return f"topic {self.name}"

    def name_problems(self, columns: Sequence[str]) -> Iterator[Problem]:  # noqa: ARG002 - JSON has any name
        """Names that Kafka refuses, and a number of partitions that no topic has."""
        if not _TOPIC_NAME.fullmatch(self.name):
            yield f"{self.name!r} is not the name of a topic", "Use letters, digits, dots, _ and -, at most 240."
        if self.partitions < 1:
            yield f"{self.name} has {self.partitions} partitions", "Declare one or more."


@dataclass(frozen=True)
class DataExplorerTable:
    """A table of Azure Data Explorer with every change of a row, which the sink creates and alone writes.

    Grain: one row per change of a row; ``_key``, ``_digest``, ``_version``, ``_is_deleted`` and ``_nulls`` follow the
    columns. ``database`` names the connection string in ``LAKEHOUSE_SINK_URLS``. The progress is in
    ``lakehouse_progress``.
    """

    name: str
    database: str = "data_explorer"

    @property
    def place(self) -> str:
        """Where the rows go, safe to show; two sinks never have the same."""
        return f"table {self.name} in {self.database}"

    def name_problems(self, columns: Sequence[str]) -> Iterator[Problem]:
        """Names that the service refuses, and those of tables that sinks have; ``columns`` are those of the sink."""
        if not _DATA_EXPLORER_NAME.fullmatch(self.name):
            action = "Use letters, digits, _ and -, at most 200; not lakehouse_progress, nor _lakehouse_ with a number."
            yield f"{self.name!r} cannot be the name of the table", action
        for name in (name for name in columns if not _DATA_EXPLORER_COLUMN.fullmatch(name)):
            yield f"Data Explorer refuses the column {name}", "Use letters, digits, space, dot, _ and -."


Target = PostgresTable | SqlServerTable | ChangesTopic | DataExplorerTable


@dataclass(frozen=True)
class Sink(OutletParts):
    """A target outside of the lakehouse with the rows of a table, which each run brings to its newest version.

    Grain: one row per row of the table; in a topic and in Data Explorer, one per change of a row. ``of`` names a merged
    table, a log table, a change feed or a rollup. ``to`` is the target. ``columns`` are those to write; by default all
    that do not start with an underscore. The columns that identify a row are always among them: the key, the columns of
    a rollup's ``by``, of a change feed also ``source_table_id`` and ``source_version``, and of a log table ``_record``,
    a text.

    ``unfit`` says what becomes of a row with a value that the database cannot hold: the run fails, or the row is left
    out, and its key is in ``lakehouse_unfit`` there.

    Each run writes what changed since the version that the target has, deletes too, together with the new version. A
    second run without news writes nothing. VACUUM waits for a sink while it is ``enabled``.
    """

    to: Target
    columns: Sequence[str] = ()
    unfit: Literal["refuse", "leave_out"] = "refuse"

    def own_problems(self) -> Iterator[Problem]:
        """What is wrong with it, with any table."""
        yield from super().own_problems()
        yield from listed_twice(self.columns)
        for name in (name for name in self.columns if name.startswith("_")):
            yield f"{name} is a column of lakehouse", "Remove it from columns: what identifies a row is always written."
        yield from self.to.name_problems(self.columns)
        if self.unfit != "refuse" and isinstance(self.to, ChangesTopic):
            yield "a topic holds every value, so no row is unfit", "Remove unfit=."
        if self.unfit != "refuse" and isinstance(self.to, DataExplorerTable):
            yield "a sink to Data Explorer leaves no row out", "Remove unfit=."

    def table_problems(self, table: OutletTable) -> Iterator[Problem]:
        """A table whose rows have no identity, and columns that it has not or that identify its rows."""
        if not table.identity:
            message = f"the rows of {self.of} have nothing that identifies them"
            yield message, "A sink can be of a merged table, a log table, a change feed or a rollup."
        known_names = [name for name in table.types or () if name != RECORD]
        for name in self.columns if known_names else ():
            if name not in known_names:
                hint = spelling_hint(name, known_names)
                yield f"unknown column {name}", f"{hint}The columns of {self.of} are {', '.join(known_names)}."
        missing_names = [name for name in table.identity if self.columns and name not in (*self.columns, RECORD)]
        if missing_names:
            yield f"columns has no {missing_names[0]}, which identifies a row", "Add it to columns."
        if not self.columns:
            yield from self.to.name_problems(known_names)

    def rival_problems(self, rival: OutletParts) -> Iterator[Problem]:
        """Whether another sink writes to the same place."""
        if isinstance(rival, Sink) and rival.to.place == self.to.place:
            yield f"the sink {rival.name} writes to the same {self.to.place}", "Give each its own target."


Outlet = Export | Sink
"""What takes the rows of a table out of the lakehouse."""


class RowIdentity(NamedTuple):
    """The columns that identify a row of a table; ``can_be_null``: one of them may be NULL, as in a rollup."""

    columns: tuple[str, ...]
    can_be_null: bool = False


def row_identity(table: TableParts, name: str) -> RowIdentity | None:
    """Return what identifies a row of a table of a declaration; ``None`` if a sink cannot follow that table."""
    identities = {rollup.name: RowIdentity(tuple(rollup.by), can_be_null=True) for rollup in table.rollups}
    identities[table.name] = RowIdentity(tuple(table.key) or (RECORD,))
    if not table.is_log:
        identities[table.changes_name] = RowIdentity((*table.key, *_FEED_IDENTITY))
    return identities.get(name)
