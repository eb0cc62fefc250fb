"""What the next run changes in the tables of a declaration before it writes a row, and their layouts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Literal

import pyarrow.compute as pc

from lakehouse.declaration import Files, Generated, StreamTable, TableRows, TopicPattern
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.snapshot import differences, meaning_of
from lakehouse.derived.feed import changes_layout
from lakehouse.derived.refresh import is_as_declared, rollup_layout
from lakehouse.errors import DeclarationError, LakehouseError, LedgerError, StoreUnreachableError, TableError
from lakehouse.ingest.correction import outdated_ranges, subtract_ranges
from lakehouse.ingest.deletes import deletes_layout
from lakehouse.ingest.erasures import erased_layout
from lakehouse.ingest.gaps import former_topic, read_both, require_comparable
from lakehouse.ingest.load import base_layout, reference_layout
from lakehouse.ingest.rejected_records import rejected_layout
from lakehouse.ingest.schema_resolution import schemas_layout
from lakehouse.ingest.topics import split_by_topic, topics_with_progress
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log import open_rows, open_table
from lakehouse.ledger.positions import Range
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.versions import scan_rows
from lakehouse.settings import Settings
from lakehouse.sources.files.folder import files_layout
from lakehouse.sources.table_sources import source_of
from lakehouse.storage.layout import COLUMNS_PROPERTY, DECLARATION_PROPERTY, Layout
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.schema_diff import SchemaDiff, read_schema_diff
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
    "recompute",
    "refuse",
    "read again",
]
_LOOK_LIMIT = 1.5  # seconds for the broker


def batch_layouts(settings: Settings, table: StreamTable) -> Iterator[Layout]:
    """The tables that batches write next to the merged table: rejected records, and deletes if they are declared."""
    yield rejected_layout(table, settings)
    if table.delete_rule:
        yield deletes_layout(table, settings)


def derived_layouts(settings: Settings, table: StreamTable) -> Iterator[Layout]:
    """The tables that are derived from the merged table: change feed and rollups."""
    if not table.is_log:
        yield changes_layout(table, settings)
    for rollup in table.rollups:
        yield rollup_layout(table, rollup, settings)


def loaded_layouts(settings: Settings, table: StreamTable) -> Iterator[Layout]:
    """The tables that exist only if there is something to store: schemas, base rows and reference tables."""
    if table.has_schemas:
        yield schemas_layout(table, settings)
    if table.reads_files:
        yield files_layout(table, settings)
    if table.base:
        yield base_layout(table, settings)
    for reference in table.references:
        yield reference_layout(table, reference, settings)
    yield erased_layout(table, settings)


def layouts_of(settings: Settings, table: StreamTable) -> Iterator[Layout]:
    """All tables of a declaration, the merged table first."""
    yield merged_layout(table, settings)
    yield from batch_layouts(settings, table)
    yield from derived_layouts(settings, table)
    yield from loaded_layouts(settings, table)


@dataclass(frozen=True)
class Change:
    """One change of a table. The kind ``refuse`` means that the declaration does not fit: the run stops there."""

    table: str
    kind: Kind
    detail: str

    def __str__(self) -> str:
        """The change in a sentence, for a log."""
        return f"{self.table}: {self.kind}: {self.detail}"


def plan_changes(settings: Settings, table: StreamTable) -> list[Change]:
    """What the next run changes in the tables of a declaration, in order; empty if they match the declaration.

    Tables that only a load creates are included if they exist. The run stops at a table that is refused. If it stops at
    the merged table, later changes are not listed. The topic is compared only by its name. Nothing is written. Raises
    ``StoreUnreachableError``.
    """
    merged_changes = (*_topic_changes(settings, table), *_table_changes(merged_layout(table, settings)))
    changes = list(dict.fromkeys(merged_changes))  # both functions report what the ledger refuses
    if any(change.kind == "refuse" for change in changes):
        return changes
    run_layouts = [*batch_layouts(settings, table), *derived_layouts(settings, table)]
    existing_layouts = [layout for layout in loaded_layouts(settings, table) if open_table(layout.uri)]
    for layout in (*run_layouts, *existing_layouts):
        table_changes = list(_table_changes(layout))
        changes += table_changes
        is_refused = any(change.kind == "refuse" for change in table_changes)
        rollup = next((rollup for rollup in table.rollups if rollup.name == layout.name), None)
        if rollup and not is_refused:
            ledger = read_ledger(layout.uri, layout.name)
            if ledger.newest and not is_as_declared(ledger, rollup):
                detail = "the declaration of the rollup changed: all groups are recomputed"
                changes.append(Change(layout.name, "recompute", detail + _former_measures(layout)))
    return changes


def list_planned_changes(settings: Settings, table: StreamTable) -> list[Change]:
    """What a starting run changes in existing tables, without the changes that the run reports itself.

    If the changes cannot be determined, the result is empty: the run itself raises the error when it uses the table.
    """
    try:
        changes = plan_changes(settings, table)
    except LakehouseError:
        return []
    loaded_names = {layout.name for layout in loaded_layouts(settings, table)}  # only a load changes these tables
    return [c for c in changes if c.kind not in ("create", "refuse") and c.table not in loaded_names]


def plan_reading(settings: Settings, table: StreamTable) -> list[Change]:
    """Stored rows whose records were read by another declaration: how many, and the command that reads them again.

    Asks the source which of their records it still has. Empty if there are no such rows. Raises what opening the table
    raises.
    """
    try:
        ledger = merged_ledger(settings, table)
    except LakehouseError:  # plan_changes reports it
        return []
    outdated = outdated_ranges(ledger, meaning_of(table))
    rows = _count_rows_of(ledger.uri, outdated)
    if not rows:
        return []
    try:
        rows_left = _count_rows_of(ledger.uri, _still_in_source(settings, table, outdated))
        fact = f"{table.topic_text} still has the records of {rows_left:,} of them"
    except LakehouseError as error:
        fact = f"whether {table.topic_text} still has their records is unknown: {error.what}"
    detail = f"{rows:,} rows were read by an earlier declaration; {fact}: lakehouse replay {table.name} --again"
    return [Change(table.name, "read again", detail)]


def _still_in_source(
    settings: Settings, table: StreamTable, outdated: Mapping[str, Sequence[Range]]
) -> dict[str, tuple[Range, ...]]:
    """Return the parts of ranges that the source still has."""
    left: dict[str, tuple[Range, ...]] = {}
    for part in split_by_topic(settings, table, _LOOK_LIMIT):
        state = source_of(settings, part).preview_state(merged_ledger(settings, part), _LOOK_LIMIT)
        expired = [Range(partition, 0, first) for partition, first in state.earliest.items()]
        left[state.source.text] = tuple(subtract_ranges(outdated.get(state.source.text, ()), expired))
    return left


def _count_rows_of(uri: str, ranges: Mapping[str, Sequence[Range]]) -> int:
    """Count the rows whose record has a position in ranges, by source; reads only the positions of rows."""
    table = open_rows(uri)
    conditions = [
        (pc.field((RECORD, "source")).cast("string") == source)
        & (pc.field((RECORD, "partition")) == part.partition)
        & (pc.field((RECORD, "position")) >= part.start)
        & (pc.field((RECORD, "position")) < part.end)
        for source, parts in ranges.items()
        for part in parts
    ]
    if table is None or not conditions:
        return 0
    with log_failures(uri):
        return int(scan_rows(table, [RECORD], reduce(or_, conditions)).count_rows())


def plan_types(spark: "SparkSession", table: StreamTable) -> list[Change]:
    """What Spark refuses in the SQL of a declaration: wrong types, or unknown names. Reads no rows."""
    try:
        require_types(spark, table)
    except DeclarationError as error:
        return [Change(table.name, "refuse", str(error))]
    return []


def _topic_changes(settings: Settings, table: StreamTable) -> Iterator[Change]:
    """The reasons in the merged table's own history for which the next run stops."""
    try:
        ledger = merged_ledger(settings, table)
        require_comparable(table, ledger)
    except (LedgerError, DeclarationError) as error:
        yield Change(table.name, "refuse", str(error))
        return
    except TableError:  # _table_changes reports it
        return
    if table.topics:
        yield from _left_topics(table, topics_with_progress(ledger))
        return
    merged_topic = ledger.last_commit.stream if ledger.last_commit else None
    declared_name = table.source.stream if isinstance(table.source, Files | TableRows | Generated) else table.topic
    if merged_topic is not None and merged_topic != declared_name:
        problem = f"the table has records of {merged_topic}, but the declaration has {table.topic_text}"
        former = former_topic(ledger) if table.has_topics else None
        both = f"{read_both(former, table)}. Or declare" if former else "Declare"
        advice = f"{both} {merged_topic} again, or a table of another name"
        yield Change(table.name, "refuse", f"{problem}: the run stops. {advice}")


def _left_topics(table: StreamTable, read_topics: list[str]) -> Iterator[Change]:
    """The topics that the table has read and no longer declares."""
    pattern = table.topics
    kept_topics = pattern.matching(read_topics) if isinstance(pattern, TopicPattern) else pattern
    for name in sorted({*read_topics} - {*kept_topics}):
        detail = f"topic {name} is not read any more; its rows and its progress stay"
        yield Change(table.name, "declare", detail)


def _former_measures(layout: Layout) -> str:
    """Describe the columns of a rollup that are no longer declared as measures."""
    rollup_table = open_table(layout.uri)
    stored_names = [field.name for field in rollup_table.schema().fields] if rollup_table else []
    names = [name for name in stored_names if name not in layout.names and not name.startswith("_")]
    return f"; {', '.join(names)}: no longer declared, stays in the table as NULL" if names else ""


def _table_changes(layout: Layout) -> Iterator[Change]:
    try:
        diff = read_schema_diff(layout)
    except StoreUnreachableError:
        raise
    except (TableError, LedgerError) as error:
        yield Change(layout.name, "refuse", str(error))
        return
    if diff is None:
        yield Change(layout.name, "create", layout.doc)
        return
    yield from _schema_changes(layout, diff)
    yield from _declaration_changes(layout, diff)


def _schema_changes(layout: Layout, diff: SchemaDiff) -> Iterator[Change]:
    """The changes of columns and properties that make a table match its layout."""
    types = {column.name: column.type for column in layout.columns}
    for name in diff.widened_columns:
        detail = f"{name} to {types[name]}: all rows are rewritten, after the derived tables have read them"
        yield Change(layout.name, "widen column", detail)
    for name in diff.retyped_columns:
        yield Change(layout.name, "change type", f"{name} to {types[name]}: all groups are recomputed")
    for path, column in diff.missing_columns:
        yield Change(layout.name, "add column", f"{'.'.join(path)} {column.type}; NULL in existing rows")
    for name, value in diff.properties.items():
        if name not in (COLUMNS_PROPERTY, DECLARATION_PROPERTY):  # these follow from the declaration
            yield Change(layout.name, "set property", f"{name} = {value}")


def _declaration_changes(layout: Layout, diff: SchemaDiff) -> Iterator[Change]:
    """The differences from the previous declaration, without added columns, which are already listed."""
    added_parts = {f"column {path[0]}" for path, _ in diff.missing_columns}
    for part, text in differences(diff.former_declaration, layout.declaration_facts) if diff.former_declaration else ():
        if part not in added_parts:
            yield Change(layout.name, "declare", text)
