"""A stored table for the steps: created by its layout, read, and written in commits that its ledger records.

Only this module decides who writes rows: deltalake if the rows are few and the table is eligible, otherwise Spark. The
rows are the same.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.decoding.staged import CORRECTED, DELETE, EQUAL_VERSION, MATCHED_ROW, NO_ROW, STALE, WITHDRAWN
from lakehouse.errors import ConflictError, LockedError
from lakehouse.ledger.commits import Commit, Entry, Kind
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.spark.own_session import collect_rows
from lakehouse.storage.data_files import DataFile, read_nothing, read_rows, read_slots
from lakehouse.storage.delta_rs_writer import add_files, append_nothing, append_quickly, upsert_quickly, write_quickly
from lakehouse.storage.eligibility import (
    MOST_MEMORY,
    can_append_quickly,
    can_copy_files,
    can_merge_quickly,
    can_replace_slots,
    has_texts,
)
from lakehouse.storage.key_hashes import KeyHashes, only_inserted
from lakehouse.storage.key_packs import Hashes
from lakehouse.storage.layout import Layout
from lakehouse.storage.merge_spec import MergeSpec, from_source, keyed_spec
from lakehouse.storage.row_changes import read_changes
from lakehouse.storage.schema_change import add_comments, ensure_table, require_nothing, restrict_statistics
from lakehouse.storage.schema_diff import RewriteScope
from lakehouse.storage.slot_writer import files_of_slots, write_slots
from lakehouse.storage.spark_writer import (
    commit_append,
    commit_merge,
    commit_overwrite,
    read_table,
    run_restore,
    run_upkeep,
    write_alone,
)


@dataclass(frozen=True)
class ExpectedRows:
    """The number of rows to write, the bytes of text in them, and all their partitions; ``None`` is unknown.

    Partitions matter only for rows that are compared with stored rows: no other partition is read. So do ``bounds``,
    the least and greatest values of columns of the key, as texts, and ``key_hashes``, those of the keys of all rows, by
    the SQL of ``KeyHashes``.
    """

    rows: int | None
    text: int | None = None
    partitions: Collection[str] | None = None
    bounds: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    key_hashes: Hashes | None = None


COUNTED_FLAGS = {
    NO_ROW: "deletes_without_row",
    EQUAL_VERSION: "equal_versions",
    CORRECTED: "corrected",
    WITHDRAWN: "withdrawn",
}
"""Flags of compared rows, and the fields of the commit that count them."""


class ComparedRows(NamedTuple):
    """Rows to store, the clauses of a MERGE that stores them, and how many have each flag that a commit counts."""

    rows: DataFrame
    spec: MergeSpec
    counts: Mapping[str, int]


class Comparison(Protocol):
    """New rows, one for each key of a table, which its stored rows are compared with.

    - ``compare_few`` returns the rows to store: every column, and whether the row is stale (``_stale``); if deletes are
      declared, also whether the stored row is removed (``_removes``), and whether a delete found none (``_no_row``); if
      a version is, whether the stored row has the same one and other values (``_equal_version``).
    - The MERGE of ``compare_many`` must match a row only with the stored row that it was compared with.
    - ``before_commit`` receives the compared rows and returns the commit to make, for what has to be stored elsewhere
      first. It receives each delete of the batch that has to be stored (``_delete``).
    """

    def compare_few(self, stored_rows: DataFrame) -> DataFrame: ...  # noqa: D102 - as above

    def compare_many(self, stored_rows: DataFrame) -> ComparedRows: ...  # noqa: D102

    def before_commit(self, compared_rows: DataFrame, commit: Commit) -> Commit: ...  # noqa: D102


def _with_counts(commit: Commit, counts: Mapping[str, int]) -> Commit:
    """Return the commit with these counts of flags, added to what it has counted before."""
    fields = {COUNTED_FLAGS[name]: getattr(commit, COUNTED_FLAGS[name]) + count for name, count in counts.items()}
    return commit.with_fields(**fields)


@dataclass(frozen=True)
class StoredTable:
    """One Delta table of a session.

    A ``StreamTable`` declares several; deltalake's ``DeltaTable`` is one version of it, as opened. Every commit of rows
    carries a ``Commit`` that was planned on a ledger, and is made only if no other lakehouse commit came in between.
    ``require`` checks every ledger that this reads, and raises if the ledger does not record what the table needs.
    """

    spark: SparkSession
    layout: Layout
    require: Callable[[Ledger], Ledger] = field(default=lambda ledger: ledger, repr=False, compare=False)

    def ensure(self, before_rewrite: Callable[[], None] | None = require_nothing) -> bool:
        """Create or change the table with ``ensure_table``; return whether anything was committed."""
        return ensure_table(self.spark, self.layout, before_rewrite) is None

    def ensured_ledger(
        self, before_rewrite: Callable[[], None] | None = require_nothing, scope: RewriteScope | None = None
    ) -> Ledger:
        """Create or change the table with ``ensure_table``; return its ledger, read only once if possible."""
        unchanged_ledger = ensure_table(self.spark, self.layout, before_rewrite, scope)
        return self.ledger() if unchanged_ledger is None else self._check_ledger(unchanged_ledger)

    def ledger(self, *, whole: bool = False) -> Ledger:
        """Read the ledger with ``read_ledger``; raises what ``require`` raises."""
        return self._check_ledger(read_ledger(self.layout.uri, self.layout.name, whole=whole))

    def _check_ledger(self, ledger: Ledger) -> Ledger:
        return self.require(ledger.merged_by_key() if self.layout.key else ledger)

    def next_commit(self, kind: Kind, run: str) -> Commit:
        """Return the commit that follows the current ledger."""
        return self.ledger().next_commit(kind, run)

    def rows(self, version: int | None = None) -> DataFrame:
        """Return the rows of the table, of the newest or of a given version."""
        return read_table(self.spark, self.layout, version)

    def rows_covering(self, version: int, partitions: Collection[str] | None) -> DataFrame:
        """Return at least the rows of a version in these partitions (``None``: any); few files are read directly."""
        return read_rows(self.spark, self.layout, version, partitions)

    def changes(self, first: int, last: int) -> DataFrame:
        """Return the row changes of the versions from ``first`` to ``last``, from Delta's change data feed."""
        return read_changes(self.spark, self.layout.uri, first, last)

    def add_files(self, files: Sequence[DataFile], commit: Commit) -> Entry:
        """Commit data files that workers wrote into the folder of the table; raises what ``append_quickly`` raises."""
        return add_files(self.layout, files, commit)

    def append(self, rows: DataFrame, commit: Commit, expected: ExpectedRows) -> Entry:
        """Append rows in one commit that carries ``commit``, without reading the table.

        Raises what ``commit_append`` raises. Also raises ``ConflictError`` if a commit was made since the planning.
        """
        arrow_rows = collect_rows(rows) if can_append_quickly(self.layout, expected.rows, expected.text) else None
        if arrow_rows is not None:
            return append_quickly(self.layout, arrow_rows, commit)
        return commit_append(self.spark, self.layout, rows, commit=commit)

    def merge(self, rows: DataFrame, spec: MergeSpec, commit: Commit) -> Entry:
        """MERGE rows by ``spec`` in one commit that carries ``commit``; raises what ``commit_merge`` raises."""
        return commit_merge(self.spark, self.layout, rows, spec, commit)

    def upsert(
        self, rows: DataFrame, by: Sequence[str], deleted_column: str, commit: Commit, expected: ExpectedRows
    ) -> Entry:
        """Merge rows, one for each value of ``by``, in one commit that carries ``commit``.

        A row is written only if one of its columns differs. It is deleted if its ``deleted_column`` is true. NULL
        equals NULL. Raises what ``commit_merge`` raises.
        """
        is_eligible = can_merge_quickly(self.layout, expected.rows, text=expected.text)  # rows may be in any partition
        arrow_rows = collect_rows(rows) if is_eligible else None
        if arrow_rows is not None:
            return upsert_quickly(self.layout, arrow_rows, by, deleted_column, commit)
        return self.merge(rows, keyed_spec(self.layout.names, by, deleted_column), commit)

    def write_compared(self, comparison: Comparison, commit: Commit, expected: ExpectedRows) -> Entry:
        """Compare new rows, one for each key of the layout, with the stored rows, and store them in one commit.

        Raises what ``commit_merge`` raises, and ``ValueError`` if the layout has no key.
        """
        if not self.layout.key:
            raise ValueError(f"{self.layout.name} has no key to compare rows by")
        is_small = can_merge_quickly(self.layout, expected.rows, expected.partitions, expected.text)
        is_large = not is_small and can_replace_slots(self.layout, expected.rows, expected.text)
        entry = None
        if expected.rows and (is_small or is_large):
            entry = self._write_few(comparison, commit, expected, is_small=is_small)
        if entry is None:
            rows, spec, counts = comparison.compare_many(self.rows())
            entry = self.merge(rows, spec, comparison.before_commit(rows, _with_counts(commit, counts)))
        if is_large and (only_inserted(entry) or expected.key_hashes is not None):
            self.key_hashes.follow(entry, self.ledger, expected.key_hashes, expected.partitions)
        return entry

    @property
    def key_hashes(self) -> KeyHashes:
        """The hashes of its keys."""
        return KeyHashes(self.spark, self.layout)

    def _write_few(
        self, comparison: Comparison, commit: Commit, expected: ExpectedRows, *, is_small: bool
    ) -> Entry | None:
        """Compare rows with the version that the commit was planned on, and commit on that version without Spark.

        Returns ``None``, and writes nothing, if Spark has to write.
        """
        stored_rows = self._read_stored(commit.table_version, expected, is_small=is_small)
        if stored_rows is None:
            return None
        rows = self._collect_few(comparison.compare_few(stored_rows), expected.rows, is_small=is_small)
        if rows is None:
            return None
        counted_names = [name for name in COUNTED_FLAGS if name in rows.column_names]
        commit = _with_counts(commit, {name: pc.sum(rows[name]).as_py() for name in counted_names})
        rows = rows.drop_columns(counted_names)
        deletes = DELETE in rows.column_names
        if deletes:
            new_deletes = self.spark.createDataFrame(rows.select([*self.layout.key, DELETE]))
            commit, rows = comparison.before_commit(new_deletes, commit), rows.drop_columns([DELETE])
        try:
            if is_small:
                return write_quickly(self.layout, rows, self.layout.key, expected.partitions, commit)
            return write_slots(self.layout, rows, self.layout.key, commit)
        except LockedError:
            raise
        except ConflictError:  # Spark can still commit if the other commit changed none of its rows
            if deletes:  # it would store them once more
                raise
            return None

    def _read_stored(self, version: int, expected: ExpectedRows, *, is_small: bool) -> DataFrame | None:
        """Return at least the stored rows with the keys of a batch: none if all of its keys are new.

        ``None`` if Spark has to compare them.
        """
        partitions = expected.partitions
        if is_small:
            return read_rows(self.spark, self.layout, version, partitions)
        if self.key_hashes.are_new(expected.key_hashes, version, partitions):
            return read_nothing(self.spark, self.layout)
        return read_slots(self.spark, self.layout, version, partitions, expected.bounds)

    def _collect_few(self, compared_rows: DataFrame, count: int | None, *, is_small: bool) -> pa.Table | None:
        """Return compared rows; ``None`` if Spark has to write them: more or fewer than expected, or none to store.

        A duplicate key makes them more, which Delta refuses, and deltalake makes no commit for no row.
        """
        if not is_small and has_texts(self.layout):
            compared_rows = compared_rows.localCheckpoint()
            size = compared_rows.selectExpr("sum(octet_length(to_json(struct(*))))").first()
            if size and (size[0] or 0) > MOST_MEMORY:  # of stored rows, which were not counted
                return None
        rows = collect_rows(compared_rows)
        if rows is not None and MATCHED_ROW in rows.column_names and rows[MATCHED_ROW].null_count == rows.num_rows:
            rows = rows.drop_columns([MATCHED_ROW])  # all keys are new
        if rows is None or rows.nbytes > MOST_MEMORY:  # kept values from stored rows add to the expected size
            return None
        if rows.num_rows != count or pc.all(rows[STALE]).as_py():
            return None
        has_slots = MATCHED_ROW in rows.column_names
        return rows if not has_slots or can_copy_files(self.layout, files_of_slots(rows)) else None

    def replace_rows(self, rows: DataFrame, commit: Commit) -> Entry:
        """Replace every row and the column types; columns that are no longer declared remain, and become NULL.

        The rows must be cached or come from another table: the table is not read while it is replaced.
        Raises what ``commit_overwrite`` raises.
        """
        rows = add_comments(rows, self.layout)
        restrict_statistics(self.spark, self.layout)
        other_fields = [field for field in self.rows().schema if field.name not in self.layout.names]
        rows = rows.withColumns({field.name: F.lit(None).cast(field.dataType) for field in other_fields})
        with write_alone(self.layout):
            return commit_overwrite(self.spark, self.layout, rows, commit)

    def commit_nothing(self, commit: Commit) -> Entry:
        """Make a commit without rows and files, for any columns of the table; raises what ``commit_merge`` raises."""
        if entry := self._append_nothing(commit):
            return entry
        no_rows = self.rows().where("false")
        return self.merge(no_rows, MergeSpec("false", insert=from_source(no_rows.columns)), commit)

    def _append_nothing(self, commit: Commit) -> Entry | None:
        """Make the commit without Spark; ``None`` if Spark has to, as after a commit of another program."""
        if not can_append_quickly(self.layout, 0):
            return None
        try:
            return append_nothing(self.layout, commit)
        except LockedError:
            raise
        except ConflictError:
            return None

    def restore(self, version: int) -> None:
        """Return the table to an earlier version; raises ``ConflictError`` if another writer was first."""
        run_restore(self.spark, self.layout, version)

    def run_upkeep(self, statement: str, run: str) -> None:
        """Run a statement that changes no row; raises ``ConflictError`` if another writer was first."""
        run_upkeep(self.spark, self.layout, statement, run)
