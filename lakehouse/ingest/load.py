"""Base files and reference files → their tables; base rows → the merged table.

Base rows are older than any record: merging them changes only rows without a position, and kept columns for which no
record had a value. Among base rows, the later commit wins, by its number, which never decreases.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Reference, Rows, StreamTable
from lakehouse.decoding import staged
from lakehouse.errors import LakehouseError
from lakehouse.ingest.counts import count_batch
from lakehouse.ingest.decode import as_batch, with_computed
from lakehouse.ingest.deletes import settle_deletes
from lakehouse.ingest.erasures import without_erased
from lakehouse.ingest.merge import merge_newest
from lakehouse.ingest.newest_per_key import newest_per_key
from lakehouse.ingest.rejecting_rules import named_references, read_known, require_accepted
from lakehouse.ingest.sources import read_reference_rows
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.consumption import Consumption, version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_rows
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, comparable, equal_keys, equal_values, from_source
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, retry_on_conflict


@dataclass(frozen=True)
class BaseLoad:
    """The result of one load of base files; ``rows`` counts the rows of the files, ``version`` is of the base table."""

    folder: Path
    files: int
    rows: int
    superseded: int
    inserted: int
    updated: int
    version: int

    @property
    def has_changes(self) -> bool:
        """Whether any base row is new or different."""
        return bool(self.inserted or self.updated)


@dataclass(frozen=True)
class ReferenceLoad:
    """The result of one load of a reference file; ``rows`` counts the rows of the file."""

    name: str
    rows: int
    inserted: int
    updated: int
    deleted: int
    version: int


def base_layout(table: StreamTable, settings: Settings) -> Layout:
    """Return the layout of the base rows: one row for each key."""
    return Layout(
        table.base_name,
        settings.table_uri(table.base_name),
        f"Rows of {table.name} loaded from base files. Any record of the topic replaces them.",
        [TableColumn.from_declaration(column) for column in table.stored_columns],
        partition_by=table.partition_by.name if table.partition_by else None,
        statistics=table.key,
        retention=table.upkeep.retention,
        anchors=table.key,
        key=table.key,
        declaration=table.fingerprint,
        declaration_name=table.name,
        fixed_columns=[*table.key, *table.version_columns],
        sync=settings.sync,
    )


def load_base(context: TableContext, folder: Path | None = None) -> BaseLoad:
    """Load a folder of files into the base table; ``None`` means the folder of the last load, else the declared one.

    In one load, the order is the file name, then the place in the file; a later load wins over an earlier one.
    Loading the same files again writes nothing. If another writer is first, the files are read again. Raises
    ``BaseFileError`` if any row cannot be loaded, or a rule of ``rejects`` applies to it; nothing is loaded then.
    """
    base = context.table.base
    if base is None:
        raise LakehouseError(f"Table {context.table.name} declares no base files", action="Declare base= to load some.")
    return retry_on_conflict(lambda: _load_base(context, base, folder))


def _load_base(context: TableContext, files: Rows, folder: Path | None) -> BaseLoad:
    table, base = context.table, context.stored_table(base_layout)
    ledger = base.ledger()
    last_folder = ledger.newest.commit.folder if ledger.newest else None
    source_folder = (folder or Path(last_folder or files.default_folder)).expanduser().resolve()
    rows = with_computed(files.read(context.spark, source_folder, table.fields), table).localCheckpoint()
    if table.rejects:
        load_named_references(context)
        require_accepted(rows, table, read_known(context.settings, table))
    base.ensure()
    counts = rows.agg(F.count("*").alias("rows"), F.count_distinct("_file").alias("files")).collect()[0]
    newest_rows = without_erased(context, _newest_in_load(rows, table)).localCheckpoint()
    commit_fields = {"folder": str(source_folder), "declaration": table.fingerprint}
    commit = base.next_commit("load", context.run).with_fields(**commit_fields)
    entry = _upsert(base, table, newest_rows, commit)
    return BaseLoad(
        folder=source_folder,
        files=counts["files"],
        rows=counts["rows"],
        superseded=counts["rows"] - newest_rows.count(),
        inserted=entry.metrics.inserted if entry else 0,
        updated=entry.metrics.updated if entry else 0,
        version=entry.version if entry else ledger.version,
    )


def _newest_in_load(rows: DataFrame, table: StreamTable) -> DataFrame:
    place = "struct(_file, _place)"
    column_names = [column.name for column in table.stored_columns if column.name not in (*table.key, *table.keep)]
    values = [F.expr(f"max_by(struct(`{c}`), {place}).`{c}`").alias(c) for c in column_names]
    kept_values = [F.expr(f"max_by(`{c}`, {place}) FILTER (WHERE `{c}` IS NOT NULL)").alias(c) for c in table.keep]
    if not values and not kept_values:
        return rows.select(*table.key).distinct()
    return rows.groupBy(*table.key).agg(*values, *kept_values)


def _upsert(base: StoredTable, table: StreamTable, newest_rows: DataFrame, commit: Commit) -> Entry | None:
    """Write the rows that are new or different; ``None`` if there are none. Kept columns never lose a value."""
    layout = base.layout
    values = {c: f"coalesce(s.`{c}`, t.`{c}`)" if c in table.keep else f"s.`{c}`" for c in layout.names}
    same_key = equal_keys(table.key)
    types = {column.name: column.type for column in layout.columns}
    pairs = ((comparable(values[c], types[c]), comparable(f"t.`{c}`", types[c])) for c in layout.names)
    differs = " OR ".join(f"NOT ({new_value} <=> {stored_value})" for new_value, stored_value in pairs)
    joined_rows = newest_rows.alias("s").join(base.rows().alias("t"), F.expr(same_key), "left")
    changed_rows = joined_rows.where(f"t.`{table.key[0]}` IS NULL OR {differs}").select("s.*").localCheckpoint()
    if changed_rows.isEmpty():
        return None
    return base.merge(changed_rows, MergeSpec(same_key, values, from_source(layout.names)), commit)


def reference_layout(table: StreamTable, reference: Reference, settings: Settings) -> Layout:
    """Return the layout of a reference table: one row for each of its keys."""
    return Layout(
        reference.name,
        settings.table_uri(reference.name),
        reference.doc,
        [TableColumn.from_declaration(column) for column in reference.columns],
        retention=table.upkeep.retention,
        declaration_name=table.name,
        fixed_columns=reference.key,
        sync=settings.sync,
    )


def load_reference(context: TableContext, reference: Reference) -> ReferenceLoad:
    """Make a reference table equal to its file; a second run with the same file writes nothing.

    If another writer is first, the file is read again. Raises ``BaseFileError`` if a line cannot be loaded; nothing is
    loaded then.
    """
    reference_table = StoredTable(context.spark, reference_layout(context.table, reference, context.settings))
    return retry_on_conflict(lambda: _make_equal(reference_table, reference, context.run))


def load_named_references(context: TableContext) -> None:
    """Load the references that rules of the table name, if their files differ from what is loaded.

    A reference whose file is not there stays as it is. Raises ``BaseFileError`` if it was never loaded.
    """
    for reference in named_references(context.table):
        stored_table = open_rows(context.settings.table_uri(reference.name))
        if stored_table is not None:
            if not reference.file.exists():
                continue
            rows = read_reference_rows(reference)
            stored_rows = pa.table(stored_table.to_pyarrow_table(columns=rows.column_names))
            if _rows_of(stored_rows) == _rows_of(rows):
                continue
        load_reference(context, reference)


def _rows_of(rows: pa.Table) -> set[tuple[Any, ...]]:
    return set(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _make_equal(reference_table: StoredTable, reference: Reference, run: str) -> ReferenceLoad:
    """Insert, update and delete the rows that differ from the file, in one commit; no commit if none differs."""
    rows = reference_table.spark.createDataFrame(read_reference_rows(reference)).localCheckpoint()
    ledger = reference_table.ensured_ledger()
    names = reference_table.layout.names
    same_key, is_equal = equal_keys(reference.key), equal_values(names)
    joined_rows = (
        rows.alias("s").join(reference_table.rows().alias("t"), F.expr(same_key), "full").where(f"NOT ({is_equal})")
    )
    columns = [F.coalesce(f"s.{c}", f"t.{c}").alias(c) if c in reference.key else F.col(f"s.{c}") for c in names]
    columns.append(F.expr(f"s.`{reference.key[0]}` IS NULL").alias("_is_gone"))
    changed_rows = joined_rows.select(*columns).localCheckpoint()
    values = from_source(names)
    spec = MergeSpec(same_key, values, values, delete_if="s._is_gone")
    if changed_rows.isEmpty():
        return ReferenceLoad(reference.name, rows.count(), 0, 0, 0, ledger.version)
    entry = reference_table.merge(changed_rows, spec, ledger.next_commit("load", run))
    metrics = entry.metrics
    return ReferenceLoad(
        reference.name, rows.count(), metrics.inserted, metrics.updated, metrics.deleted, entry.version
    )


def merge_base(context: TableContext, ledger: Ledger) -> Entry | None:
    """Merge the current base table into the merged table; ``None`` if its rows are already merged.

    Versions of the base table that changed no row count as merged: maintenance does not cause another merge.
    """
    table, base = context.table, context.stored_table(base_layout)
    base_ledger = base.ledger()
    if not base_ledger.exists or Consumption(base_ledger, ledger.consumed).is_current:
        return None
    base_ledger = base.ensured_ledger()  # with the columns that were declared since its last load
    number = F.lit(ledger.next_number).cast("bigint")
    rows = as_batch(base.rows(base_ledger.version), table).withColumn(staged.BASE, number)
    counts = count_batch(rows, table)
    commit = ledger.next_commit("base", context.run).with_fields(
        read=counts.read,
        superseded=counts.superseded,
        consumed=version_to_consume(base_ledger),
        declaration=table.fingerprint,
    )
    newest_rows = newest_per_key(rows, table, None, has_unique_keys=not counts.superseded)
    deletes = settle_deletes(context, ledger) if table.delete_rule else None
    return merge_newest(context, newest_rows, counts, commit, deletes)
