"""What a table lacks of its layout, or why it does not fit. Looks at the log; nothing is written."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from deltalake import DeltaTable
from pyspark.sql.types import StructType

from lakehouse.declaration.names import RECORD
from lakehouse.declaration.partitions import Day, Month, Value, Year
from lakehouse.declaration.snapshot import declared_again, renamed
from lakehouse.declaration.widening import is_recast, is_widened
from lakehouse.decoding.nested_types import as_spark_says
from lakehouse.errors import TableError
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.understood import LOAD_AGAIN, OLDER
from lakehouse.storage.layout import DECLARED, DECLARES, KEY, VERSION_COLUMN, Layout, TableColumn, paths

_BESIDE = ", or a column of another name beside it, or a table of another name, which a merge fills from the topic"
Path = tuple[str, ...]
Types = dict[Path, str]
"""The type of every column of a table, and of every field of a struct, by the names that lead to it."""


@dataclass(frozen=True)
class Rewriting:
    """What a rewrite gives a table beyond what a run does: other types, and partitions.

    ``partition`` is what the layout parts rows by, and ``periods`` is what a column of ours may have parted them by.
    """

    partition: Day | Month | Year | Value | None = None
    periods: Collection[Day | Month | Year] = ()


@dataclass(frozen=True)
class Lack:
    """What a table lacks of its layout: columns and fields of structs by their names, and properties.

    ``widened`` are the columns that have a narrower type, ``remade`` those of another type, of a table that is computed
    anew as a whole then. Of a rewrite also: ``recast``, columns of another type that may hold each value as it is, and
    by which columns rows are ``parted``, where by others than they are to be. ``declared`` is what was declared before,
    as facts. ``ledger`` is that of the table, read after the table was opened.
    """

    ledger: Ledger
    columns: Sequence[tuple[Path, TableColumn]]
    properties: Mapping[str, str]
    widened: Sequence[str]
    remade: Sequence[str] = ()
    recast: Sequence[str] = ()
    parted: Sequence[str] | None = None
    declared: str = ""

    @property
    def written(self) -> bool:
        """Whether every row has to be written once."""
        return bool(self.widened or self.recast) or self.parted is not None


def lacking(layout: Layout, table: DeltaTable, rewriting: Rewriting | None = None) -> Lack:
    """What an opened table lacks; nothing is written.

    Raises ``TableError`` where it does not fit, ``LedgerError`` where this version cannot read what its commits say.
    """
    ledger = read_ledger(layout.uri, layout.name)
    stands, found = table.metadata(), _types_of(table)
    _require_key(layout, stands.configuration)
    _require_version(layout, stands.configuration)
    _require_names(layout, stands.configuration.get(DECLARES, ""))
    other = _of_other_types(layout, found, rewriting)
    parted = stands.partition_columns if list(stands.partition_columns) != layout.partitions else None
    if parted is not None and rewriting is None:
        raise _parted_otherwise(layout, parted)
    names = [path[0] for path in found if len(path) == 1]
    declared = _require_same_fields(layout, stands.configuration, names)
    made = {(name,): "" for name in layout.partitions if parted is not None}
    return Lack(
        ledger,
        _missing(layout, made | found, ledger),
        layout.corrections(stands.configuration),
        **other,
        parted=parted,
        declared=declared,
    )


def lack_of(layout: Layout, rewriting: Rewriting | None = None) -> Lack | None:
    """What a table lacks now, as ``lacking`` tells it; ``None`` if there is no table."""
    there = open_table(layout.uri)
    with log_failures(layout.uri):
        return lacking(layout, there, rewriting) if there else None


def remade_columns(layout: Layout) -> list[str]:
    """The stored columns of another type than declared, in a table that is computed anew as a whole for that.

    None where there is no table. Reads the log and writes nothing.
    """
    there = open_table(layout.uri)
    return _of_other_types(layout, _types_of(there), None)["remade"] if there else []


def _types_of(table: DeltaTable) -> Types:
    return _types(StructType.fromJson(json.loads(table.schema().to_json())))


def _types(schema: StructType, above: Path = ()) -> Types:
    """The types of a schema, by the names that lead to each."""
    found = {above: schema.simpleString()}
    for each in schema:
        path = (*above, each.name)
        found[path] = each.dataType.simpleString()
        if isinstance(each.dataType, StructType):
            found |= _types(each.dataType, path)
    return found


def _missing(layout: Layout, found: Mapping[Path, str], ledger: Ledger) -> list[tuple[Path, TableColumn]]:
    """The columns that a table with these lacks; ``TableError`` where one of them may not be added."""
    missing = [(path, column) for path, column in paths(layout.columns) if path[:-1] in found and path not in found]
    _require_same_rows(layout, found)
    if missing:
        _require_new(layout, [path[0] for path, _ in missing if len(path) == 1], ledger)
    return missing


def _of_other_types(layout: Layout, found: Types, rewriting: Rewriting | None) -> dict[str, list[str]]:
    """The columns of another type than declared, by what becomes of them; ``TableError`` where nothing may."""
    named: dict[str, list[str]] = {"widened": [], "remade": [], "recast": []}
    for path, column in paths(layout.columns):
        declared = as_spark_says(column.type)
        stands = found.get(path, declared)
        if stands == declared or column.fields:
            continue
        wider = len(path) == 1 and is_widened(stands, declared)
        can = len(path) == 1 and path[0] not in layout.fixed and is_recast(stands, declared)
        if wider and (column.widens or column.recomputed):
            named["widened"].append(column.name)
        elif column.recomputed:
            named["remade"].append(column.name)
        elif rewriting and can:
            named["recast"].append(column.name)
        else:
            by = f", or have every row written with this one: {layout.rewrite}" if can else _BESIDE
            says = wider and path[0] not in layout.partitions
            way = f", or say widened_from={stands.upper()!r} to have it widened" if says else by
            raise _of_another_type(layout, path, (stands, declared), way)
    return named


def _of_another_type(layout: Layout, path: Path, types: tuple[str, str], way: str) -> TableError:
    stands, declared = types
    return TableError(
        f"Column {'.'.join(path)} of {layout.name} is {stands} in the table and {declared} in its declaration",
        where=layout.uri,
        action=f"Declare the type the table has{way}.",
    )


def _parted_otherwise(layout: Layout, stands: Sequence[str]) -> TableError:
    return TableError(
        f"{layout.name} is partitioned by {', '.join(stands) or 'nothing'} and"
        f" its declaration by {', '.join(layout.partitions) or 'nothing'}",
        where=layout.uri,
        action=f"Declare the partitions the table has, or have every row written by these: {layout.rewrite}",
    )


def _require_key(layout: Layout, stands: Mapping[str, str]) -> None:
    """Raise where the rows were merged by another key: a key of the new one may stand in several of them."""
    named = stands.get(KEY, "")
    if named and layout.key and named != layout.lasting[KEY]:
        raise TableError(
            f"The key of {layout.name} is {named} in the table and {layout.lasting[KEY]} in its declaration",
            where=layout.uri,
            action="Declare the key the table has, or a table of another name, which a merge fills from the topic.",
        )


def _require_version(layout: Layout, stands: Mapping[str, str]) -> None:
    """Raise where kept values came with another version column: its numbers say nothing beside those of this one."""
    named = stands.get(VERSION_COLUMN, "")
    if named and layout.kept_by and named != layout.kept_by:
        raise TableError(
            f"The kept values of {layout.name} came with versions of {named}, and {layout.kept_by} is declared",
            where=layout.uri,
            action=f"Declare version={named!r}, or a table of another name, which a merge fills from the topic.",
        )


def _require_names(layout: Layout, declared: str) -> None:
    """Raise where a column has another name than the one that took the same: its values would stay under neither."""
    for gone, new in renamed(declared, layout.declares) if declared and layout.declares else ():
        raise TableError(
            f"Column {new} of {layout.name} takes what its column {gone} takes, which is no longer declared",
            where=layout.uri,
            action=f"Name it {gone}, as in the table, and say source= for what records call it; or declare both"
            f" (without formerly), merge once, and leave {gone} out then.",
        )


def _require_same_fields(layout: Layout, stands: Mapping[str, str], names: Collection[str]) -> str:
    """Return what was declared before, as facts, with what former columns took.

    Raise where a column that the table has is declared again from another field: its values would come back as if they
    were of this one.
    """
    before = stands.get(DECLARES, "") if layout.declares else ""
    ever = {*stands.get(DECLARED, "").split(",")}
    for name, took, same in declared_again(before, layout.declares):
        if not same and name in names and name in ever:
            raise TableError(
                f"Column {name} of {layout.name} still holds values from {took}, as it was declared once, and would"
                " take another field now",
                where=layout.uri,
                action=f"Give the new one another name, and say source= for what records call it; or declare {name} as"
                " it was.",
            )
    return before


def _require_same_rows(layout: Layout, found: Collection[Path]) -> None:
    """Raise where a struct without which a row means nothing has other fields: rows of a log table are others."""
    declared = [path for path, _ in paths(layout.columns)]
    others = {path for path in {*declared} ^ {*found} if len(path) > 1 and path[0] in layout.anchors}
    others = {path for path in others if path[:-1] in found}
    if others == {(RECORD, "base")}:
        has = "have" if others <= {*found} else "have no"
        raise TableError(
            f"The rows of {layout.name} {has} {RECORD}.base: they were written with a key where there is none now, or"
            " without one where there is one now",
            where=layout.uri,
            action="Declare the key as it was, or a table of another name.",
        )
    if others & {*declared}:
        raise TableError(f"The table {layout.name} {OLDER}", where=layout.uri, action=LOAD_AGAIN)


def _require_new(layout: Layout, missing: Sequence[str], ledger: Ledger) -> None:
    """Raise where a column that is missing was there: to add it again would hide that its values are gone."""
    newest = ledger.newest
    same = newest is not None and newest.commit.declaration == layout.declaration != ""
    gone = [name for name in missing if same or name in layout.anchors]
    if gone:
        raise TableError(
            f"Column {gone[0]} is in the declaration of {layout.name} and no longer in the table",
            where=layout.uri,
            action="Somebody dropped or renamed it: RESTORE the table to the version before, then run it again.",
        )
