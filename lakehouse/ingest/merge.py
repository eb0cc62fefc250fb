"""Records and rows → the merged table: the newest row for each key, or each valid record as one row of a log table.

``merge_by_key`` merges the valid records of a batch, ``merge_newest`` rows of which each has its own key. If deletes
are declared, the newest delete of each key is compared too: what is older does not exist.

The position of its record and its time on the broker identify a row of a log table: a broker that was rolled back
gives the same positions to other records.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.decoding import staged
from lakehouse.decoding.files.data_files import DataFileTarget, write_valid
from lakehouse.errors.causes import causes_of
from lakehouse.ingest.compared_rows import Target, compare, slot_columns, store_spec
from lakehouse.ingest.correction import Reading, correct_log
from lakehouse.ingest.counts import MAX_UNMAPPED_FIELDS, Counts, Touched
from lakehouse.ingest.deletes import Deletes, as_stored_deletes, settle_deletes, store_deletes
from lakehouse.ingest.erasures import has_marks
from lakehouse.ingest.newest_per_key import newest_per_key
from lakehouse.ingest.rejected_records import DecodedBatch, covered_sql, has_rejected, position_fields, rejected_layout
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.positions import Plan
from lakehouse.ledger.table_failures import disk_failure
from lakehouse.sources.source import Judge, Undecoded
from lakehouse.storage.data_files import DataFile
from lakehouse.storage.eligibility import can_add_files
from lakehouse.storage.layout import TEXT_BOUND, paths
from lakehouse.storage.merge_spec import NO_BOUNDS, MergeSpec, bounds_of, from_source
from lakehouse.storage.row_order import KEPT, identity_fields, same_record
from lakehouse.storage.stored_table import COUNTED_FLAGS, ComparedRows, ExpectedRows, StoredTable
from lakehouse.storage.table_context import TableContext

MANY_BYTES = 32 * 1024 * 1024
"""Bytes of undecoded records from which on workers write rows: fewer give Spark one file, instead of one per worker."""
_MUCH_TEXT = 2**62
_FAILURE = re.compile(r"DataFileError: errno (\d+)")


def merge_by_key(context: TableContext, batch: DecodedBatch, counts: Counts) -> Entry:
    """Store the deletes of a batch, then merge its rows in one commit; raises what ``merge_newest`` raises."""
    table = context.table
    is_row = f"{staged.REASON} IS NULL" + (f" AND NOT {staged.ROWLESS}" if table.has_truncates else "")
    rows = batch.records.where(is_row).selectExpr("*", f"CAST(NULL AS BIGINT) AS {staged.BASE}")
    newest_rows = newest_per_key(
        rows,
        table,
        batch.plan.source,
        has_unique_keys=not counts.superseded,
        # offsets of several partitions do not order the records of a key
        bounds=NO_BOUNDS if counts.changes.moved_keys else bounds_of(batch.commit),
    )
    deletes = settle_deletes(context, batch.ledger) if table.delete_rule else None
    if batch.commit.kind == "correction":
        return _correct_rows(context, newest_rows, counts, batch, deletes)
    return merge_newest(context, newest_rows, counts, batch.commit, deletes)


def merge_newest(
    context: TableContext, newest_rows: DataFrame, counts: Counts, commit: Commit, deletes: Deletes | None
) -> Entry:
    """Merge rows, one for each key, in one commit; rows that are older than the table's are stale.

    Each row is compared once with the stored row of its key, which gives the row to store; the commit only writes it.
    If the stored row has changed since, or has been added since, the commit fails (``ConflictError``). Stale rows take
    part in no match and no insert, so that a replay writes no data file. They still count: Delta reports every row of
    the batch as a source row. The commit names the deletes that count. New deletes among the rows are stored before
    it, in a version that only this commit names.
    """
    target = Target(context.table, context.merged)
    if deletes is not None:
        commit = commit.with_fields(deletes_table=deletes.counted_version)
        target = Target(context.table, context.merged, deletes.rows, bounds_of(commit), counts.deleted_keys > 0)
    keep = target.table.keep
    # stored values of kept columns were not counted
    text = None if target.text_columns & {*keep} else counts.text_from(commit.source, 1 + len(keep))
    touched = counts.touched
    expected = ExpectedRows(counts.rows, text, touched.partitions, touched.bounds, touched.key_hashes)
    return target.merged.write_compared(NewestRows(target, newest_rows, counts, deletes), commit, expected)


def _correct_rows(
    context: TableContext, newest_rows: DataFrame, counts: Counts, batch: DecodedBatch, deletes: Deletes | None
) -> Entry:
    """Merge rows like ``merge_newest``; the stored rows and deletes of the records that were read follow them."""
    table, commit, reading = context.table, batch.commit, Reading(context.table, batch.records, batch.plan.source)
    # stored rows of other keys may have the records, or kept values of them
    positions = [RECORD, *(f"{KEPT}.`{name}`" for name in table.keep)]
    conditions = [counts.touched.prune, *(covered_sql(f"t.{name}", batch.plan) for name in positions)]
    prune = f"({' OR '.join(f'({condition})' for condition in conditions)})"
    # those rows are not counted: there may be too many for a broadcast
    counts = replace(counts, touched=Touched(prune=prune, text=_MUCH_TEXT))
    target = Target(table, context.merged, bounds=bounds_of(commit), reading=reading)
    if deletes is not None:
        commit = commit.with_fields(deletes_table=deletes.counted_version)
        rows = deletes.rows and deletes.rows.join(reading.former_deletes(deletes.rows), list(table.key), "left_anti")
        target = replace(target, deletes=rows, has_new_deletes=counts.deleted_keys > 0)
    rows_to_store = NewestRows(target, newest_rows, counts, deletes)
    return target.merged.write_compared(rows_to_store, commit, ExpectedRows(None))


@dataclass(frozen=True)
class NewestRows:
    """Rows to merge, one for each key: a ``Comparison`` with the stored rows, and with the deletes that count."""

    target: Target
    rows: DataFrame
    counts: Counts
    deletes: Deletes | None

    def compare_few(self, stored_rows: DataFrame) -> DataFrame:
        """Return the rows to store, each with the stored row that it replaces if the slots of these were read."""
        compared_rows = compare(self.target, stored_rows, self.rows, self.counts)
        # a stale row has the stored texts, and is not written, and neither is a removed row
        is_unwritten = f"{staged.STALE} OR {staged.REMOVES}" if self.target.table.delete_rule else staged.STALE
        texts = {name: F.expr(f"IF({is_unwritten}, NULL, `{name}`)") for name in sorted(self.target.text_columns)}
        if not slot_columns(stored_rows):
            return compared_rows.drop(staged.MATCHED_ROW).withColumns(texts)
        met = F.expr(f"IF({staged.STALE}, NULL, {staged.MATCHED_ROW})")
        return compared_rows.withColumns(texts | {staged.MATCHED_ROW: met})

    def compare_many(self, stored_rows: DataFrame) -> ComparedRows:
        """Return the rows to store and the MERGE that stores them, each with the row that it was compared with."""
        compared_rows = compare(self.target, stored_rows, self.rows, self.counts).localCheckpoint()
        spec = store_spec(self.target, stored_rows, self.counts)
        return ComparedRows(compared_rows.hint(self.counts.join), spec, _count_flags(compared_rows))

    def before_commit(self, compared_rows: DataFrame, commit: Commit) -> Commit:
        """Store the new deletes, and remove the ones that are none any more; return the commit that names them.

        Base rows that are older than what was corrected have to be merged again.
        """
        if commit.corrected and self.target.table.base:
            commit = commit.with_fields(consumed=None)
        if self.deletes is None or not (self.counts.deleted_keys or self.target.reading):
            return commit
        changed_deletes = self._changed_deletes(compared_rows, self.deletes)
        if changed_deletes is None or changed_deletes.isEmpty():
            return commit
        if self.target.reading and self.target.table.base:
            commit = commit.with_fields(consumed=None)
        expected = ExpectedRows(self.counts.deleted_keys, self.counts.text_from(commit.source))
        expected = ExpectedRows(None) if self.target.reading else expected
        stored_deletes = store_deletes(self.deletes, changed_deletes, expected, commit)
        return commit.with_fields(deletes_table=stored_deletes)

    def _changed_deletes(self, compared_rows: DataFrame, deletes: Deletes) -> DataFrame | None:
        """Return the deletes to store, each with whether it is removed; ``None`` if there can be none."""
        table, reading = self.target.table, self.target.reading
        new_deletes = None
        if self.counts.deleted_keys:
            new_deletes = as_stored_deletes(table, compared_rows.where(f"{staged.DELETE} IS NOT NULL"))
        if reading is None or deletes.rows is None:
            return new_deletes
        former_deletes = reading.former_deletes(deletes.rows).withColumn(staged.REMOVES, F.lit(True))
        if new_deletes is None:
            return former_deletes
        former_deletes = former_deletes.join(new_deletes, list(table.key), "left_anti")
        return new_deletes.unionByName(former_deletes, allowMissingColumns=True)


def _count_flags(compared_rows: DataFrame) -> dict[str, int]:
    """Count what the commit counts of compared rows, in one statement; in none if it counts nothing."""
    counts = [F.count_if(name).alias(name) for name in COUNTED_FLAGS if name in compared_rows.columns]
    row = compared_rows.agg(*counts).first() if counts else None
    return row.asDict() if row else {}


def append_records(context: TableContext, batch: DecodedBatch, counts: Counts) -> Entry:
    """Append the valid records of a batch in one commit; reads nothing of the table.

    Records that the table may already have are inserted by their positions instead, and present ones count as stale.
    These are the records of a replay or a redrive, and of ranges that an undone commit has read before. Raises the
    same errors as ``commit_merge``.
    """
    table, merged_table, commit = context.table, context.merged, batch.commit
    if not counts.rows and commit.kind != "correction":
        return merged_table.commit_nothing(commit)
    if batch.files:
        return merged_table.add_files(batch.files, commit)
    rows = _to_rows(table, batch, merged_table.layout.names)
    if commit.kind == "correction":
        return _correct_log(table, merged_table, rows, batch)
    if commit.kind != "batch" or not is_new(batch.ledger, batch.plan):
        return _insert_missing(table, merged_table, rows, batch, counts)
    return merged_table.append(rows, commit, ExpectedRows(counts.rows, counts.text_from(commit.source)))


def is_new(ledger: Ledger, plan: Plan) -> bool:
    """Whether no commit, not even an undone one, has read records of these ranges."""
    reached_ends = ledger.reached.get(plan.source.text, {})
    return all(part.start >= reached_ends.get(part.partition, 0) for part in plan.ranges if part.span)


def _to_rows(table: StreamTable, batch: DecodedBatch, column_names: Sequence[str]) -> DataFrame:
    """Return the valid records as rows of the table."""
    index = f", {staged.INDEX} AS index" if table.has_elements else ""
    record = f"struct({position_fields(batch.plan)}, {staged.TIME} AS time, {staged.ORDER_TIME} AS order_time{index})"
    rows = batch.records.where(f"{staged.REASON} IS NULL").withColumn(RECORD, F.expr(record))
    return rows.select(*(f"`{name}`" for name in column_names))


def _insert_missing(
    table: StreamTable, merged_table: StoredTable, rows: DataFrame, batch: DecodedBatch, counts: Counts
) -> Entry:
    """Insert the rows whose record is missing; the others count as stale and write no file.

    Stale rows are marked before the MERGE, and it has a clause for matching rows although none matches: with one,
    Delta counts its source twice and commits nothing if the counts differ.
    """
    identity = ", ".join(f"{RECORD}.{name}" for name in identity_fields(table))
    stored_rows = merged_table.rows().where(covered_sql(RECORD, batch.plan))
    stored_records = stored_rows.select(F.expr(f"struct({identity}) AS _stored_record")).distinct()
    marked_rows = rows.join(stored_records, F.expr(same_record(table, RECORD, "_stored_record")), "left")
    marked_rows = marked_rows.withColumn(staged.STALE, F.expr("_stored_record IS NOT NULL"))
    marked_rows = marked_rows.drop("_stored_record").localCheckpoint()
    is_new = f"NOT s.{staged.STALE}"
    spec = MergeSpec(
        f"{same_record(table, f's.{RECORD}', f't.{RECORD}')} AND {covered_sql(f't.{RECORD}', batch.plan)} AND {is_new}",
        from_source([RECORD]),
        from_source(merged_table.layout.names),
        insert_if=is_new,
    )
    return merged_table.merge(marked_rows.hint(counts.join), spec, batch.commit)


def _correct_log(table: StreamTable, merged_table: StoredTable, rows: DataFrame, batch: DecodedBatch) -> Entry:
    """Replace the stored rows of the records that were read where values differ, insert missing rows, remove others."""
    layout, reading = merged_table.layout, Reading(table, batch.records, batch.plan.source)
    stored_rows = merged_table.rows().where(covered_sql(RECORD, batch.plan))
    types = {column.name: column.type for column in layout.columns}
    compared_rows = correct_log(reading, rows, stored_rows, types).localCheckpoint()
    is_new = f"NOT s.{staged.STALE}"
    spec = MergeSpec(
        f"{same_record(table, f's.{RECORD}', f't.{RECORD}')} AND {covered_sql(f't.{RECORD}', batch.plan)} AND {is_new}",
        from_source([name for name in layout.names if name != RECORD]),
        from_source(layout.names),
        insert_if=is_new,
        delete_if=f"s.{staged.WITHDRAWN}",
    )
    commit = batch.commit.with_fields(**{COUNTED_FLAGS[n]: v for n, v in _count_flags(compared_rows).items()})
    return merged_table.merge(compared_rows, spec, commit)


@dataclass(frozen=True)
class WrittenRecords:
    """Undecoded records whose valid rows are written as soon as they are decoded."""

    records: Undecoded
    target: DataFileTarget

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return self.records.size

    def judged(self, judge: Judge) -> DataFrame:
        """Return a row for each record that is not valid, and for each data file, as ``write_valid`` yields them."""
        return self.records.judged(judge._replace(finish=partial(write_valid, target=self.target)))


def with_data_files(
    context: TableContext, records: DataFrame | Undecoded, plan: Plan, commit: Commit, ledger: Ledger
) -> DataFrame | Undecoded:
    """Return the records so that workers write their valid rows, if that gives the same rows; else unchanged."""
    table, layout = context.table, context.merged.layout
    if isinstance(records, DataFrame) or records.size < MANY_BYTES or commit.kind != "batch":
        return records
    is_plain = table.is_log and not (table.has_elements or table.has_schemas or table.computed or table.rejects)
    is_here = context.settings.spark_is_local and not context.settings.spark_remote  # that server may be a cluster
    if not (is_plain and is_here and can_add_files(layout) and is_new(ledger, plan)) or has_marks(context):
        return records
    # a record that was rejected before a crash, and is valid now, has to be marked there
    if has_rejected(context.stored_table(rejected_layout), plan):
        return records
    log_table = open_table(layout.uri)
    schema = pa.schema(log_table.schema()) if log_table else pa.schema([])
    columns = [column for column in layout.columns if column.name in layout.statistics]
    bounded = [path for path, column in paths(columns) if not column.fields]
    prefix = f"part-{uuid4().hex[:12]}-"  # of no other batch
    target = DataFileTarget(layout.uri, prefix, schema, RECORD, plan.source.text, bounded, TEXT_BOUND)
    return WrittenRecords(records, target)


@contextmanager
def write_failures(uri: str) -> Iterator[None]:
    """Raise ``TableError`` if the disk does not let a worker write a data file of this table."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        texts = (str(error), *(cause.message for cause in causes_of(error)))
        match = next(filter(None, map(_FAILURE.search, texts)), None)
        if match is None:
            raise
        number = int(match[1])
        raise disk_failure(OSError(number, os.strerror(number)), uri) from error


@contextmanager
def removed_on_failure(records: DataFrame | Undecoded) -> Iterator[None]:
    """Remove the data files of records that cannot all be decoded: a full disk would stay full.

    No commit can name them yet. A worker that still writes leaves its file to VACUUM.
    """
    try:
        yield
    except BaseException:
        if isinstance(records, WrittenRecords):
            for path in Path(records.target.folder).glob(f"{records.target.prefix}*"):
                with suppress(OSError):
                    path.unlink()
        raise


def take_data_files(rows: DataFrame) -> tuple[DataFrame, list[DataFile]]:
    """Split staged rows into those of records and the data files that others describe."""
    details = rows.where(f"{staged.REASON} = '{staged.WRITTEN}'").select(staged.DETAIL).collect()
    files = [DataFile(**json.loads(detail)) for (detail,) in details]
    return rows.where(f"NOT {staged.REASON} <=> '{staged.WRITTEN}'"), files


def count_data_files(counts: Counts, files: Sequence[DataFile]) -> Counts:
    """Add the rows of data files to the counts of the other records of a batch."""
    unmapped_fields = Counter(counts.unmapped_fields)
    for file in files:
        unmapped_fields.update(file.unmapped_fields)
    return replace(
        counts,
        read=counts.read + sum(file.rows for file in files),
        late=counts.late + sum(file.late for file in files),
        rounded=counts.rounded + sum(file.rounded for file in files),
        unmapped_fields=dict(unmapped_fields.most_common(MAX_UNMAPPED_FIELDS)),
    )
