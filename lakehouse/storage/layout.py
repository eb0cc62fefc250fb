"""How a table is stored: its columns, partitions and properties. Makes the text of statements; no input or output."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from lakehouse.declaration.columns import Column, Computed
from lakehouse.declaration.snapshot import with_former
from lakehouse.declaration.sql import quoted
from lakehouse.decoding.nested_types import nested

CHANGE_DATA = "delta.enableChangeDataFeed"
KEY = "lakehouse.key"  # the columns of the key, sorted by name
ROWS = "lakehouse.rows_from"  # the path to the array whose elements are rows, as JSON; only in such tables
VERSION_COLUMN = "lakehouse.version"  # the version column that orders the values of kept columns, or the deletes
NO_VERSION = "(none)"  # its value for deletes without a version
DECLARATION_PROPERTY = (
    "lakehouse.declaration"  # the declaration of the last commit of rows, as facts, and the sources of former columns
)
COLUMNS_PROPERTY = (
    "lakehouse.columns"  # every lakehouse column that the table ever had; all others belong to other programs
)
VECTORS = "delta.enableDeletionVectors"
STATISTICS = "delta.dataSkippingStatsColumns"
TEXT_TYPES = ("STRING", "BINARY")  # types whose values may have any size
TEXT_BOUND = 32  # characters of a text that the log keeps as the bound of a file or of a batch
_KEEP_LOG = "delta.logRetentionDuration"
_LOG_RETENTION = timedelta(days=30)  # minimum: the history is the ledger


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: its name, Spark SQL type and meaning; a struct has ``fields``.

    ``can_widen``: a narrower type in the table is changed to this one. ``is_recomputed``: any other type in the table
    is changed to this one, since the whole table is then recomputed.
    """

    name: str
    type: str
    doc: str
    fields: tuple["TableColumn", ...] = ()
    can_widen: bool = False
    is_recomputed: bool = False

    @classmethod
    def from_declaration(cls, column: Column | Computed, name: str = "", doc: str = "") -> "TableColumn":
        """Make the column of a declared one, or a derived column with another name and meaning."""
        return cls(name or column.name, column.type, doc or column.doc, can_widen=column.widened_from is not None)

    @classmethod
    def struct(cls, name: str, doc: str, fields: Iterable["TableColumn"]) -> "TableColumn":
        """Make a column of named fields."""
        inner = tuple(fields)
        return cls(name, f"STRUCT<{', '.join(f'`{field.name}`: {field.type}' for field in inner)}>", doc, inner)

    @property
    def definition(self) -> str:
        """The column in a statement that creates or adds it."""
        return f"`{self.name}` {self._type_with_comments} COMMENT {quoted(self.doc)}"

    @property
    def _type_with_comments(self) -> str:
        inner = (f"`{field.name}`: {field._type_with_comments} COMMENT {quoted(field.doc)}" for field in self.fields)
        return f"STRUCT<{', '.join(inner)}>" if self.fields else self.type


Paths = Iterator[tuple[tuple[str, ...], TableColumn]]


def paths(columns: Iterable[TableColumn], parent_path: tuple[str, ...] = ()) -> Paths:
    """Yield every column and every field of a struct with its path of names; a struct comes before its fields."""
    for column in columns:
        path = (*parent_path, column.name)
        yield path, column
        yield from paths(column.fields, path)


@dataclass(frozen=True)
class Layout:
    """How a table is stored: its location, columns, partition column and the columns with statistics.

    ``change_data`` keeps the changes of each version, for tables that have derived tables. ``retention`` is the minimum
    time for which former versions can be read. ``anchors`` are columns without which a row means nothing: they are
    never added later. ``key`` are the columns by which rows are merged: they never change. ``declaration`` is the hash
    of the declaration that determines the columns.
    ``cluster_by`` are the columns by which compaction groups rows. ``declaration_name`` is the name of the declaration.
    ``declaration_facts`` is its content as facts, if the table stores them.
    ``fixed_columns`` may only become wider: they identify a record or order it.
    ``kept_version_column`` is the version column whose values are stored with kept columns or deletes: once there are
    rows, it never changes.
    ``sync``: on a local disk, a commit is flushed to the disk before it is reported.
    ``deletion_vectors``: replaced rows are hidden, and their files stay.
    ``rows_path`` is the path to the array whose elements are rows, which never changes; ``None`` if there is none.
    """

    name: str
    uri: str
    doc: str
    columns: Sequence[TableColumn]
    partition_by: str | None = None
    statistics: Sequence[str] = ()
    change_data: bool = False
    retention: timedelta = timedelta(days=7)
    anchors: Sequence[str] = ()
    key: Sequence[str] = ()
    declaration: str = ""
    cluster_by: Sequence[str] = ()
    deletion_vectors: bool = False
    declaration_name: str = ""
    declaration_facts: str = ""
    kept_version_column: str = ""
    fixed_columns: Sequence[str] = ()
    sync: bool = True
    rows_path: Sequence[str] | None = None

    @property
    def partitions(self) -> list[str]:
        """The partition columns: one, or none."""
        return [self.partition_by] if self.partition_by else []

    @property
    def rewrite(self) -> str:
        """The command that rewrites every row by the layout."""
        return f"lakehouse rewrite {self.declaration_name}"

    @property
    def conflict_advice(self) -> str:
        """What to do after another writer changed the table; the audit lists the commits of merged tables only."""
        advice = "Nothing was written. Run it again."
        if self.name != self.declaration_name:
            return advice
        return f"{advice} If it happens again, find the other writer: lakehouse audit {self.declaration_name}"

    @property
    def compaction(self) -> str:
        """The statement that combines small files into few large ones and groups rows with similar values."""
        columns = ", ".join(f"`{name}`" for name in self.cluster_by)
        return f"OPTIMIZE {self.sql}" + (f" ZORDER BY ({columns})" if columns else "")

    def rewrite_statement(self, partitions: Collection[str | None]) -> str:
        """The statement that rewrites every file of some partitions.

        ``None`` is the partition of NULL, or the whole table if it has no partitions. Plain compaction skips a single
        file in a partition; compaction that orders rows does not.
        """
        statistics_column = self.statistics_properties.get(STATISTICS, "").split(",")[0]
        flat_columns = (
            column.name for column in self.columns if not nested(column.type) and column.name != self.partition_by
        )
        order = ", ".join(f"`{name}`" for name in self.cluster_by or [statistics_column or next(flat_columns)])
        where_clause = ""
        if self.partition_by:
            column, values = f"`{self.partition_by}`", [value for value in partitions if value is not None]
            conditions = [partitions_sql(column, self, values)] if values else []
            where_clause = (
                f" WHERE {' OR '.join([*conditions, *([f'{column} IS NULL'] if None in partitions else [])])}"
            )
        return f"OPTIMIZE {self.sql}{where_clause} ZORDER BY ({order})"

    @property
    def sql(self) -> str:
        """The table in a SQL statement."""
        return f"delta.`{self.uri.replace('`', '``')}`"

    @property
    def names(self) -> list[str]:
        """The column names in order."""
        return [column.name for column in self.columns]

    @property
    def enforced_properties(self) -> dict[str, str]:
        """The table properties that are restored if another program changes them."""
        properties = {KEY: ",".join(sorted(self.key))} if self.key else {}
        properties |= {VERSION_COLUMN: self.kept_version_column} if self.kept_version_column else {}
        properties |= {} if self.rows_path is None else {ROWS: json.dumps(list(self.rows_path))}
        switches = {CHANGE_DATA: self.change_data, VECTORS: self.deletion_vectors}
        return self.retention_properties | properties | {name: "true" for name, is_on in switches.items() if is_on}

    def corrections(self, stored_properties: Mapping[str, str]) -> dict[str, str]:
        """Return the enforced properties that a table with ``stored_properties`` needs; its log may be kept longer.

        The statistics columns are corrected only if all that are set are our own columns.
        """
        corrections = {
            name: value for name, value in self.enforced_properties.items() if stored_properties.get(name) != value
        }
        if stored_properties.get(VECTORS) == "true" and not self.deletion_vectors:
            corrections[VECTORS] = "false"
        if _parse_interval(stored_properties.get(_KEEP_LOG, "")) >= _parse_interval(
            self.enforced_properties[_KEEP_LOG]
        ):
            corrections.pop(_KEEP_LOG, None)
        statistics, stored_statistics = (
            self.statistics_properties.get(STATISTICS, ""),
            stored_properties.get(STATISTICS, ""),
        )
        own_columns = sorted({*filter(None, stored_properties.get(COLUMNS_PROPERTY, "").split(",")), *self.names})
        is_ours = bool(stored_statistics) and {*stored_statistics.split(",")} <= {*own_columns}
        if is_ours and statistics and {*stored_statistics.split(",")} != {*statistics.split(",")}:
            corrections[STATISTICS] = statistics
        if self.declaration_facts and stored_properties.get(COLUMNS_PROPERTY, "") != ",".join(own_columns):
            corrections[COLUMNS_PROPERTY] = ",".join(own_columns)
        declaration_facts = with_former(stored_properties.get(DECLARATION_PROPERTY, ""), self.declaration_facts)
        if declaration_facts and stored_properties.get(DECLARATION_PROPERTY) != declaration_facts:
            corrections[DECLARATION_PROPERTY] = declaration_facts
        return corrections

    @property
    def properties(self) -> dict[str, str]:
        """The table properties with which it is created."""
        own_columns = {COLUMNS_PROPERTY: ",".join(sorted(self.names))} if self.change_data else {}
        declaration = {DECLARATION_PROPERTY: self.declaration_facts} if self.declaration_facts else {}
        return (
            {CHANGE_DATA: "false"} | self.enforced_properties | own_columns | declaration | self.statistics_properties
        )

    @property
    def statistics_properties(self) -> dict[str, str]:
        """The table property that names the columns whose minimum and maximum are recorded for each file.

        Delta accepts no BOOLEAN and no partition column there (seen: the table cannot be created). If no column is
        left, Delta chooses the columns.
        """
        types = {column.name: column.type for column in self.columns}
        names = [name for name in self.statistics if types[name] != "BOOLEAN" and name != self.partition_by]
        return {STATISTICS: ",".join(names)} if names else {}

    @property
    def retention_properties(self) -> dict[str, str]:
        """The table properties that enforce the retention: VACUUM reads only these."""
        durations = {"delta.deletedFileRetentionDuration": self.retention}
        durations[_KEEP_LOG] = max(self.retention, _LOG_RETENTION)
        return {name: f"interval {max(1, round(time.total_seconds()))} seconds" for name, time in durations.items()}


def _parse_interval(interval: str) -> int:
    """Return the seconds of an interval in Delta's format; 0 if the format is another."""
    units = {"week": 604_800.0, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
    units |= {"millisecond": 1e-3, "microsecond": 1e-6}
    if not re.fullmatch(rf"(interval)?(\s*\d+\s+({'|'.join(units)})s?)+", interval.strip().lower()):
        return 0
    parts = re.findall(r"(\d+)\s+([a-z]+?)s?\b", interval.lower())
    return round(sum(int(count) * units[unit] for count, unit in parts))


def list_properties(properties: Mapping[str, str]) -> str:
    """Return the list of properties for a SQL statement."""
    return ", ".join(f"{quoted(name)} = {quoted(value)}" for name, value in properties.items())


def partitions_sql(column: str, layout: Layout, partitions: Iterable[str]) -> str:
    """Return a condition that selects the rows of some partitions; ``column`` is the partition column in SQL.

    The partitions are values as text. No partition selects no row.
    """
    (column_type,) = (table_column.type for table_column in layout.columns if table_column.name == layout.partition_by)
    values = ", ".join(literal(partition, column_type) for partition in sorted(partitions))
    return f"{column} IN ({values})" if values else "false"


def text_literal(value: str) -> str:
    """Return a text from a record as a SQL literal of character codes, so that it cannot change the statement."""
    return "'" + "".join(f"\\u{ord(c):04x}" if ord(c) <= 0xFFFF else f"\\U{ord(c):08x}" for c in value) + "'"


def literal(value: str, kind: str) -> str:
    """Return a number or a time, passed as text, in Spark SQL; ``kind`` is its type."""
    if kind in ("DATE", "TIMESTAMP"):
        return f"{kind} '{value}'"
    return f"{Decimal(value)}BD" if kind.startswith("DECIMAL") else str(int(value))
