"""Base files and reference files → their tables; base rows → the merged table.

Base rows are older than any record: merging them touches only rows without a position, and kept columns that no
record had a value for. Among base rows the later commit wins, by its number, which never goes back.
"""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Reference, Rows, StreamTable
from lakehouse.decoding import staged
from lakehouse.errors import LakehouseError
from lakehouse.ingest.counts import count_batch
from lakehouse.ingest.decode import with_computed
from lakehouse.ingest.merge import Target, merge_rows
from lakehouse.ingest.newest_per_key import newest_per_key
from lakehouse.ingest.sources import read_reference
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.ledger import Ledger, to_consume
from lakehouse.settings import Settings
from lakehouse.storage.comparison import comparable
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, equal_keys, equal_values, from_source
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, again


@dataclass(frozen=True)
class BaseLoad:
    """What one load of base files did; ``rows`` are those of the files, ``version`` is the base table's."""

    folder: Path
    files: int
    rows: int
    duplicate: int
    inserted: int
    updated: int
    version: int

    @property
    def changed(self) -> bool:
        """Whether any base row is new or another."""
        return bool(self.inserted or self.updated)


@dataclass(frozen=True)
class ReferenceLoad:
    """What one load of a reference file did; ``rows`` are those of the file."""

    name: str
    rows: int
    inserted: int
    updated: int
    deleted: int
    version: int


def base_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the base rows are stored: one row for each key."""
    columns = [TableColumn.declared(column) for column in table.stored]
    return Layout(
        table.base_name,
        settings.table_uri(table.base_name),
        f"Rows of {table.name} from files: what was known before the topic.",
        columns,
        partition_by=table.partition_by.name if table.partition_by else None,
        statistics=table.key,
        retention=table.retention,
        anchors=table.key,
        key=table.key,
        declaration=table.fingerprint,
        of=table.name,
        fixed=[*table.key, *([table.version] if table.version else [])],
        sync=settings.sync,
    )


def load_base(context: TableContext, folder: Path | None = None) -> BaseLoad:
    """Load a folder of files into the base table; ``None`` takes that of the last load, else the declared one.

    Inside one load the order is file name, then place in the file; a later load wins over an earlier one.
    Loading the same files again writes nothing. Where another writer is first, the files are read again. Raises
    ``BaseFileError`` where any row cannot be loaded; nothing is loaded then.
    """
    base = context.table.base
    if base is None:
        raise LakehouseError(f"Table {context.table.name} declares no base files", action="Declare base= to load some.")
    return again(lambda: _load_base(context, base, folder))


def _load_base(context: TableContext, files: Rows, folder: Path | None) -> BaseLoad:
    table, base = context.table, context.stored(base_layout)
    ledger = base.ledger()
    last = ledger.newest.commit.folder if ledger.newest else None
    source = (folder or Path(last or files.default_folder)).expanduser().resolve()
    rows = with_computed(files.read(context.spark, source, table.fields), table).localCheckpoint()
    base.ensure()
    counted = rows.agg(F.count("*").alias("rows"), F.count_distinct("_file").alias("files")).collect()[0]
    newest = _newest_in_load(rows, table).localCheckpoint()
    said = {"folder": str(source), "declaration": table.fingerprint}
    commit = base.next_commit("load", context.run).with_fields(**said)
    entry = _upsert(base, table, newest, commit)
    return BaseLoad(
        folder=source,
        files=counted["files"],
        rows=counted["rows"],
        duplicate=counted["rows"] - newest.count(),
        inserted=entry.metrics.inserted if entry else 0,
        updated=entry.metrics.updated if entry else 0,
        version=entry.version if entry else ledger.version,
    )


def _newest_in_load(rows: DataFrame, table: StreamTable) -> DataFrame:
    place = "struct(_file, _place)"
    own = [column.name for column in table.stored if column.name not in (*table.key, *table.keep)]
    plain = [F.expr(f"max_by(struct(`{c}`), {place}).`{c}`").alias(c) for c in own]
    kept = [F.expr(f"max_by(`{c}`, {place}) FILTER (WHERE `{c}` IS NOT NULL)").alias(c) for c in table.keep]
    return rows.groupBy(*table.key).agg(*plain, *kept) if plain or kept else rows.select(*table.key).distinct()


def _upsert(base: StoredTable, table: StreamTable, newest: DataFrame, commit: Commit) -> Entry | None:
    """Write the rows that are new or differ; ``None`` where there are none. Kept columns never lose a value."""
    layout = base.layout
    chosen = {c: f"coalesce(s.`{c}`, t.`{c}`)" if c in table.keep else f"s.`{c}`" for c in layout.names}
    same = equal_keys(table.key)
    types = {column.name: column.type for column in layout.columns}
    pairs = ((comparable(chosen[c], types[c]), comparable(f"t.`{c}`", types[c])) for c in layout.names)
    differs = " OR ".join(f"NOT ({ours} <=> {theirs})" for ours, theirs in pairs)
    joined = newest.alias("s").join(base.rows().alias("t"), F.expr(same), "left")
    changed = joined.where(f"t.`{table.key[0]}` IS NULL OR {differs}").select("s.*").localCheckpoint()
    if changed.isEmpty():
        return None
    return base.merge(changed, MergeSpec(same, chosen, from_source(layout.names)), commit)


def reference_layout(table: StreamTable, reference: Reference, settings: Settings) -> Layout:
    """How a reference table is stored: one row for each of its keys."""
    columns = [TableColumn.declared(column) for column in reference.columns]
    uri = settings.table_uri(reference.name)
    return Layout(
        reference.name,
        uri,
        reference.doc,
        columns,
        retention=table.retention,
        of=table.name,
        fixed=reference.key,
        sync=settings.sync,
    )


def load_reference(context: TableContext, reference: Reference) -> ReferenceLoad:
    """Make a reference table equal to its file; a second run with the same file writes nothing.

    Where another writer is first, the file is read again. Raises ``BaseFileError`` where a line cannot be loaded;
    nothing is loaded then.
    """
    stored = StoredTable(context.spark, reference_layout(context.table, reference, context.settings))
    return again(lambda: _make_equal(stored, reference, context.run))


def _make_equal(stored: StoredTable, reference: Reference, run: str) -> ReferenceLoad:
    """Write what of the file is new, differs or is gone, in one commit; none where nothing is."""
    rows = read_reference(stored.spark, reference).localCheckpoint()
    ledger = stored.ensured_ledger()
    names = stored.layout.names
    same, equal = equal_keys(reference.key), equal_values(names)
    joined = rows.alias("s").join(stored.rows().alias("t"), F.expr(same), "full").where(f"NOT ({equal})")
    picked = [F.coalesce(f"s.{c}", f"t.{c}").alias(c) if c in reference.key else F.col(f"s.{c}") for c in names]
    changed = joined.select(*picked, F.expr(f"s.`{reference.key[0]}` IS NULL").alias("_is_gone")).localCheckpoint()
    values = from_source(names)
    spec = MergeSpec(same, values, values, delete_if="s._is_gone")
    if changed.isEmpty():
        return ReferenceLoad(reference.name, rows.count(), 0, 0, 0, ledger.version)
    entry = stored.merge(changed, spec, ledger.next_commit("load", run))
    counted = entry.metrics
    return ReferenceLoad(
        reference.name, rows.count(), counted.inserted, counted.updated, counted.deleted, entry.version
    )


def merge_base(context: TableContext, ledger: Ledger) -> Entry | None:
    """Merge the base table, as of now, into the merged table; ``None`` where its rows are merged already.

    Versions of the base table that changed no row count as merged: maintenance does not bring it again.
    """
    table, base = context.table, context.stored(base_layout)
    held = base.ledger()
    if not held.exists or held.is_consumed(ledger.consumed):
        return None
    held = base.ensured_ledger()  # with the columns that were declared since its last load
    rows = base.rows(held.version).withColumns(
        {
            staged.REASON: F.lit(None).cast("string"),
            staged.LATE: F.lit(False),
            staged.OTHERS: F.lit(None).cast("string"),
            staged.TIME: F.lit(None).cast("timestamp"),
            staged.PARTITION: F.lit(None).cast("int"),
            staged.POSITION: F.lit(None).cast("bigint"),
            staged.SEQUENCE: F.lit(None).cast("bigint"),
            staged.BASE: F.lit(ledger.next_number).cast("bigint"),
            **{f"{staged.NULL_SAID}{name}": F.lit(False) for name in table.null_erases},
        }
    )
    counts = count_batch(rows, table)
    commit = ledger.next_commit("base", context.run).with_fields(
        read=counts.read,
        duplicate=counts.duplicate,
        consumed=to_consume(held),
        declaration=table.fingerprint,
    )
    newest = newest_per_key(rows, table, None, alone=not counts.duplicate)
    return merge_rows(Target(table, context.merged), newest, counts, commit)
