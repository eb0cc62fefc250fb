"""How a table is stored: its columns, partitions and properties. Text for statements; no input or output."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from lakehouse.declaration.snapshot import with_former
from lakehouse.declaration.sql import quoted
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.nested_types import nested

CHANGE_DATA = "delta.enableChangeDataFeed"
KEY = "lakehouse.key"  # the columns that tell one row from another, in the order of their names
VERSION_COLUMN = "lakehouse.version"  # by which the values of kept columns are told to be newer
DECLARES = "lakehouse.declaration"  # what was declared when rows came last, as facts, and what former columns took
DECLARED = "lakehouse.columns"  # those of ours that the table ever had; all others are somebody else's
STATISTICS = "delta.dataSkippingStatsColumns"
TEXT_BOUND = 32  # characters of a text that the log keeps, as a bound of a file or of a batch
_KEEP_LOG = "delta.logRetentionDuration"
_LOG_RETENTION = timedelta(days=30)  # at least: the history is the ledger


@dataclass(frozen=True)
class TableColumn:
    """A column as it stands in a table: its name, Spark SQL type and what it means; a struct has ``fields``.

    ``widens``: where the table has a narrower type for it, it is given this one. ``recomputed``: any other type is
    given up for this one, since the whole table is computed anew then.
    """

    name: str
    type: str
    doc: str
    fields: tuple["TableColumn", ...] = ()
    widens: bool = False
    recomputed: bool = False

    @classmethod
    def declared(cls, column: Column, name: str = "", doc: str = "") -> "TableColumn":
        """A declared column, or one that follows from it, of another name and meaning."""
        return cls(name or column.name, column.type, doc or column.doc, widens=column.widened_from is not None)

    @classmethod
    def struct(cls, name: str, doc: str, fields: Iterable["TableColumn"]) -> "TableColumn":
        """A column of named fields."""
        inner = tuple(fields)
        return cls(name, f"STRUCT<{', '.join(f'`{each.name}`: {each.type}' for each in inner)}>", doc, inner)

    @property
    def definition(self) -> str:
        """The column in a statement that creates or adds it."""
        return f"`{self.name}` {self._commented} COMMENT {quoted(self.doc)}"

    @property
    def _commented(self) -> str:
        inner = (f"`{each.name}`: {each._commented} COMMENT {quoted(each.doc)}" for each in self.fields)
        return f"STRUCT<{', '.join(inner)}>" if self.fields else self.type


Paths = Iterator[tuple[tuple[str, ...], TableColumn]]


def paths(columns: Iterable[TableColumn], above: tuple[str, ...] = ()) -> Paths:
    """Every column and every field of a struct, each after the one it is in, with the names that lead to it."""
    for column in columns:
        path = (*above, column.name)
        yield path, column
        yield from paths(column.fields, path)


@dataclass(frozen=True)
class Layout:
    """How a table is stored: where, its columns, its partition column and the columns with statistics.

    ``change_data`` keeps the changes of each version, for tables that others are derived from; ``retention``
    is how far back the table can be read as it was then, at least. Without its ``anchors`` a row means
    nothing: these columns are never added later. By its ``key`` rows are merged: it never changes. ``declaration`` is
    the hash of what the columns follow from.
    ``cluster_by`` are the columns by which compaction puts rows together. ``of`` is the declaration that it follows
    from, and ``declares`` what that says, as facts, where the table keeps them.
    ``fixed`` columns are given no other type but a wider one: by them a record is the same, or newer.
    ``kept_by`` is the version column whose values stand beside those of kept columns: once there is one, it stays.
    ``sync``: on a local disk, a commit is on the disk before anybody hears of it.
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
    of: str = ""
    declares: str = ""
    kept_by: str = ""
    fixed: Sequence[str] = ()
    sync: bool = True

    @property
    def partitions(self) -> list[str]:
        """The partition columns: one, or none."""
        return [self.partition_by] if self.partition_by else []

    @property
    def rewrite(self) -> str:
        """The command that writes every row as the layout says."""
        return f"lakehouse rewrite {self.of}"

    @property
    def compaction(self) -> str:
        """The statement that writes small files as few large ones, rows with like values together."""
        columns = ", ".join(f"`{name}`" for name in self.cluster_by)
        return f"OPTIMIZE {self.sql}" + (f" ZORDER BY ({columns})" if columns else "")

    def writing_anew(self, partitions: Collection[str | None]) -> str:
        """The statement that writes every file of some partitions anew; ``None`` is that of NULL, or the whole table.

        Compaction by itself passes over a file that has no other beside it; one that orders rows does not.
        """
        named = self.statistics_properties.get(STATISTICS, "").split(",")[0]
        plain = (each.name for each in self.columns if not nested(each.type) and each.name != self.partition_by)
        order = ", ".join(f"`{name}`" for name in self.cluster_by or [named or next(plain)])
        where = ""
        if self.partition_by:
            column, told = f"`{self.partition_by}`", [each for each in partitions if each is not None]
            within = [is_within(column, self, told)] if told else []
            where = f" WHERE {' OR '.join([*within, *([f'{column} IS NULL'] if None in partitions else [])])}"
        return f"OPTIMIZE {self.sql}{where} ZORDER BY ({order})"

    @property
    def sql(self) -> str:
        """The table in a SQL statement."""
        return f"delta.`{self.uri.replace('`', '``')}`"

    @property
    def names(self) -> list[str]:
        """The column names in order."""
        return [column.name for column in self.columns]

    @property
    def lasting(self) -> dict[str, str]:
        """The table properties that have to stand whoever changes them."""
        named = {KEY: ",".join(sorted(self.key))} if self.key else {}
        named |= {VERSION_COLUMN: self.kept_by} if self.kept_by else {}
        return self.retention_properties | named | ({CHANGE_DATA: "true"} if self.change_data else {})

    def corrections(self, stands: Mapping[str, str]) -> dict[str, str]:
        """The lasting properties that a table with these has to be given; a log may be kept longer than it must.

        So are the columns with statistics, where those that it has are ours, and no others.
        """
        wrong = {name: value for name, value in self.lasting.items() if stands.get(name) != value}
        if _seconds(stands.get(_KEEP_LOG, "")) >= _seconds(self.lasting[_KEEP_LOG]):
            wrong.pop(_KEEP_LOG, None)
        wanted, named = (of.get(STATISTICS, "") for of in (self.statistics_properties, stands))
        ever = sorted({*filter(None, stands.get(DECLARED, "").split(",")), *self.names})
        of_ours = bool(named) and {*named.split(",")} <= {*ever}  # and others were declared since
        if of_ours and wanted and {*named.split(",")} != {*wanted.split(",")}:
            wrong[STATISTICS] = wanted
        if self.declares and stands.get(DECLARED, "") != ",".join(ever):
            wrong[DECLARED] = ",".join(ever)
        declares = with_former(stands.get(DECLARES, ""), self.declares)
        if declares and stands.get(DECLARES) != declares:
            wrong[DECLARES] = declares
        return wrong

    @property
    def properties(self) -> dict[str, str]:
        """The table properties with which it is created."""
        ever = {DECLARED: ",".join(sorted(self.names))} if self.change_data else {}
        said = {DECLARES: self.declares} if self.declares else {}
        return {CHANGE_DATA: "false"} | self.lasting | ever | said | self.statistics_properties

    @property
    def statistics_properties(self) -> dict[str, str]:
        """The table property that names the columns of which each file tells its least and greatest value.

        Delta takes no BOOLEAN and no partition column there (seen: the table cannot be made). Where none is left, it
        chooses by itself.
        """
        types = {column.name: column.type for column in self.columns}
        named = [name for name in self.statistics if types[name] != "BOOLEAN" and name != self.partition_by]
        return {STATISTICS: ",".join(named)} if named else {}

    @property
    def retention_properties(self) -> dict[str, str]:
        """The table properties that make the retention hold; VACUUM knows no other."""
        kept = {"delta.deletedFileRetentionDuration": self.retention}
        kept[_KEEP_LOG] = max(self.retention, _LOG_RETENTION)
        return {name: f"interval {max(1, round(time.total_seconds()))} seconds" for name, time in kept.items()}


def _seconds(interval: str) -> int:
    """How long an interval is, as Delta writes one; 0 where it is written otherwise."""
    units = {"week": 604_800.0, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
    units |= {"millisecond": 1e-3, "microsecond": 1e-6}
    if not re.fullmatch(rf"(interval)?(\s*\d+\s+({'|'.join(units)})s?)+", interval.strip().lower()):
        return 0
    found = re.findall(r"(\d+)\s+([a-z]+?)s?\b", interval.lower())
    return round(sum(int(many) * units[unit] for many, unit in found))


def listed(properties: Mapping[str, str]) -> str:
    """Properties as a statement lists them."""
    return ", ".join(f"{quoted(name)} = {quoted(value)}" for name, value in properties.items())


def is_within(column: str, layout: Layout, partitions: Iterable[str]) -> str:
    """A condition that holds for the rows in some partitions, given as text; ``column`` is how a statement names it."""
    (kind,) = (each.type for each in layout.columns if each.name == layout.partition_by)
    named = ", ".join(literal(partition, kind) for partition in sorted(partitions))
    return f"{column} IN ({named})" if named else "false"


def literal(value: str, kind: str) -> str:
    """A number or a time, given as text, in Spark SQL."""
    if kind in ("DATE", "TIMESTAMP"):
        return f"{kind} '{value}'"
    return f"{Decimal(value)}BD" if kind.startswith("DECIMAL") else str(int(value))
