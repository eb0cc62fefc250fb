"""What the next run does to the tables of a declaration before it writes a row; without a JVM."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.declaration.snapshot import differences
from lakehouse.derived.rollup import is_as_declared
from lakehouse.errors import DeclarationError, LakehouseError, LedgerError, StoreUnreachableError, TableError
from lakehouse.ingest.gaps import require_comparable
from lakehouse.ingest.rejected_records import rejected_layout
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log import open_table
from lakehouse.operations.layouts import derived_layouts, loaded_layouts
from lakehouse.settings import Settings
from lakehouse.storage.layout import DECLARED, DECLARES, Layout
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.schema_change.diff import Lack, lack_of
from lakehouse.storage.sql_analysis import require_types
from lakehouse.storage.table_context import merged_ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kind = Literal[
    "create",
    "add column",
    "widen column",
    "change type",
    "declare",
    "set property",
    "compute anew",
    "refuse",
]


@dataclass(frozen=True)
class Change:
    """One thing that is done to a table; ``refuse``: it does not fit, and the run stops at it."""

    table: str
    kind: Kind
    detail: str

    def __str__(self) -> str:
        """The change in a sentence, for a log."""
        return f"{self.table}: {self.kind}: {self.detail}"


def plan_changes(settings: Settings, table: StreamTable) -> list[Change]:
    """What the next run changes in the tables of a declaration, in order; nothing where they are as it says.

    Of tables that only a load makes, those are told of that are there. A table that the run stops at is refused, and
    what would come after the merged one is not told then. Whether the topic is the one that was merged is known here
    by its name alone. Nothing is written. Raises ``StoreUnreachableError``.
    """
    said = (*_topic_changes(settings, table), *_table_changes(merged_layout(table, settings)))
    changes = list(dict.fromkeys(said))  # what the ledger refuses, both say
    if any(change.kind == "refuse" for change in changes):
        return changes
    made = [rejected_layout(table, settings), *derived_layouts(settings, table)]
    loaded = [layout for layout in loaded_layouts(settings, table) if open_table(layout.uri)]
    for layout in (*made, *loaded):
        found = list(_table_changes(layout))
        changes += found
        rollup = next((each for each in table.rollups if each.name == layout.name), None)
        if rollup and not any(change.kind == "refuse" for change in found) and _is_declared_anew(layout, rollup):
            detail = "it was made by another declaration: every group"
            changes.append(Change(layout.name, "compute anew", detail + _former_measures(layout)))
    return changes


def told_changes(settings: Settings, table: StreamTable) -> list[Change]:
    """What a run that begins changes in tables that are there, beside what it says by itself.

    Whether it can be told decides nothing: what is wrong with a table, the run meets where it works with it.
    """
    try:
        changes = plan_changes(settings, table)
    except LakehouseError:
        return []
    loaded = {layout.name for layout in loaded_layouts(settings, table)}  # which only a load changes
    return [each for each in changes if each.kind not in ("create", "refuse") and each.table not in loaded]


def plan_types(spark: "SparkSession", table: StreamTable) -> list[Change]:
    """What Spark refuses of the SQL of a declaration: its types do not fit, or it is not known; nothing is read."""
    try:
        require_types(spark, table)
    except DeclarationError as error:
        return [Change(table.name, "refuse", str(error))]
    return []


def _topic_changes(settings: Settings, table: StreamTable) -> Iterator[Change]:
    """What the merged table's own history says against the next run."""
    try:
        ledger = merged_ledger(settings, table)
        newest = ledger.newest
        require_comparable(table, ledger)
    except (LedgerError, DeclarationError) as error:
        yield Change(table.name, "refuse", str(error))
        return
    except TableError:  # told with the table
        return
    merged = newest.commit.stream if newest else None
    if merged is not None and merged != table.topic:
        fact = f"records of topic {merged} were merged, and {table.topic} is declared: the run stops"
        yield Change(table.name, "refuse", f"{fact}. Declare {merged} again, or a table of another name")


def _is_declared_anew(layout: Layout, rollup: Rollup) -> bool:
    ledger = read_ledger(layout.uri, layout.name)
    return ledger.newest is not None and not is_as_declared(ledger, rollup)


def _former_measures(layout: Layout) -> str:
    """The columns of a rollup that no measure fills any more, in words."""
    there = open_table(layout.uri)
    stored = [field.name for field in there.schema().fields] if there else []
    names = [name for name in stored if name not in layout.names and not name.startswith("_")]
    return f"; {', '.join(names)}: no longer declared, stays in the table as NULL" if names else ""


def _table_changes(layout: Layout) -> Iterator[Change]:
    try:
        lack = lack_of(layout)
    except StoreUnreachableError:
        raise
    except (TableError, LedgerError) as error:
        yield Change(layout.name, "refuse", str(error))
        return
    if lack is None:
        yield Change(layout.name, "create", layout.doc)
        return
    yield from _lacked(layout, lack)
    yield from _declared_otherwise(layout, lack)


def _lacked(layout: Layout, lack: Lack) -> Iterator[Change]:
    """What a table is given of what its layout says."""
    types = {column.name: column.type for column in layout.columns}
    for name in lack.widened:
        detail = f"{name} to {types[name]}: every row is written once, after what derives from them has read them"
        yield Change(layout.name, "widen column", detail)
    for name in lack.remade:
        yield Change(layout.name, "change type", f"{name} to {types[name]}: every group is computed anew")
    for path, column in lack.columns:
        yield Change(layout.name, "add column", f"{'.'.join(path)} {column.type}; NULL in the rows that are there")
    for name, value in lack.properties.items():
        if name not in (DECLARED, DECLARES):  # which follow the declaration
            yield Change(layout.name, "set property", f"{name} = {value}")


def _declared_otherwise(layout: Layout, lack: Lack) -> Iterator[Change]:
    """What the declaration says otherwise than the one before; columns that are added are told already."""
    added = {f"column {path[0]}" for path, _ in lack.columns}
    for part, fact in differences(lack.declared, layout.declares) if lack.declared else ():
        if part not in added:
            yield Change(layout.name, "declare", fact)
