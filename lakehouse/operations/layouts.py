"""The layouts of all tables of a declaration, as they are stored."""

from collections.abc import Iterator

from lakehouse.declaration import StreamTable
from lakehouse.derived.feed import changes_layout
from lakehouse.derived.rollup import rollup_layout
from lakehouse.ingest.deletes import deletes_layout
from lakehouse.ingest.load import base_layout, reference_layout
from lakehouse.ingest.rejected_records import rejected_layout
from lakehouse.ingest.schema_resolution import schemas_layout
from lakehouse.settings import Settings
from lakehouse.sources.files.file_log import files_layout
from lakehouse.storage.layout import Layout
from lakehouse.storage.row_order import merged_layout


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


def layouts_of(settings: Settings, table: StreamTable) -> Iterator[Layout]:
    """All tables of a declaration, the merged table first."""
    yield merged_layout(table, settings)
    yield from batch_layouts(settings, table)
    yield from derived_layouts(settings, table)
    yield from loaded_layouts(settings, table)
