"""A stored table as a step works with it: made as its layout says, read, and written in commits that its ledger tells.

Who writes rows is decided here and nowhere else: deltalake, if they are few and the table is plain, else Spark. The
rows are the same.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.decoding.staged import STALE
from lakehouse.errors import ConflictError, LockedError
from lakehouse.ledger.commits import Commit, Entry, Kind
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.spark.sessions import collected
from lakehouse.storage.delta_rs_writer import append_quickly, merge_quickly, store_quickly
from lakehouse.storage.eligibility import MOST_HELD, is_quick, is_quick_to_merge
from lakehouse.storage.layout import Layout
from lakehouse.storage.merge_spec import MergeSpec, from_source, keyed_spec
from lakehouse.storage.schema_change.apply import ask_nothing, ensure_table
from lakehouse.storage.schema_change.diff import Rewriting
from lakehouse.storage.schema_change.rewrite import leave_statistics
from lakehouse.storage.spark_writer import (
    alone,
    commit_append,
    commit_merge,
    commit_overwrite,
    read_changes,
    read_table,
    upkeep,
)
from lakehouse.storage.table_files import read_rows


@dataclass(frozen=True)
class Expected:
    """How many rows are written, how many bytes of text are in them, and all the partitions that they are in.

    ``None``: nobody knows. Of partitions only rows that are compared make use: no other is read for them.
    """

    rows: int | None
    text: int | None = None
    partitions: Collection[str] | None = None


def _any_ledger(ledger: Ledger) -> Ledger:
    return ledger


@dataclass(frozen=True)
class StoredTable:
    """One Delta table of a session.

    A ``StreamTable`` declares it, with others; deltalake's ``DeltaTable`` is one version of it, as it was opened. Every
    commit of rows carries a ``Commit`` that was planned on a ledger, and is made only if no other of ours came between.
    ``require`` raises where a ledger does not tell what this table's has to tell, and is asked of every ledger that
    this reads.
    """

    spark: SparkSession
    layout: Layout
    require: Callable[[Ledger], Ledger] = field(default=_any_ledger, repr=False, compare=False)

    def ensure(self, before: Callable[[], None] | None = ask_nothing) -> bool:
        """Make the table as its layout says, as ``ensure_table`` does; whether anything was committed."""
        return ensure_table(self.spark, self.layout, before) is None

    def ensured_ledger(
        self, before: Callable[[], None] | None = ask_nothing, rewriting: Rewriting | None = None
    ) -> Ledger:
        """Make the table as its layout says, and return its ledger after that: read once if nothing was committed."""
        unchanged = ensure_table(self.spark, self.layout, before, rewriting)
        return self.ledger() if unchanged is None else self._required(unchanged)

    def ledger(self, *, whole: bool = False) -> Ledger:
        """Read the ledger, as ``read_ledger`` does; raises what ``require`` raises."""
        return self._required(read_ledger(self.layout.uri, self.layout.name, whole=whole))

    def _required(self, ledger: Ledger) -> Ledger:
        return self.require(ledger.merged_by_key() if self.layout.key else ledger)

    def next_commit(self, kind: Kind, run: str) -> Commit:
        """Return the commit that follows what the ledger tells now."""
        return self.ledger().next_commit(kind, run)

    def rows(self, version: int | None = None) -> DataFrame:
        """The rows of the table, now or as of a version."""
        return read_table(self.spark, self.layout, version)

    def rows_covering(self, version: int, partitions: Collection[str] | None) -> DataFrame:
        """At least the rows of a version that are in these partitions (``None``: in any); its files are read if few."""
        return read_rows(self.spark, self.layout, version, partitions)

    def changes(self, first: int, last: int) -> DataFrame:
        """What the commits from one version to another did to rows, as Delta's change data feed tells it."""
        return read_changes(self.spark, self.layout, first, last)

    def append(self, rows: DataFrame, commit: Commit, expected: Expected) -> Entry:
        """Append rows in one commit that carries ``commit``; nothing of the table is read.

        Raises what ``commit_append`` raises; ``ConflictError`` too where somebody committed since it was planned.
        """
        few = collected(rows) if is_quick(self.layout, expected.rows, expected.text) else None
        if few is not None:
            return append_quickly(self.layout, few, commit)
        return commit_append(self.spark, self.layout, rows, commit=commit)

    def merge(self, rows: DataFrame, spec: MergeSpec, commit: Commit) -> Entry:
        """MERGE rows by ``spec`` in one commit that carries ``commit``; raises what ``commit_merge`` raises."""
        return commit_merge(self.spark, self.layout, rows, spec, commit)

    def merge_keyed(self, rows: DataFrame, by: Sequence[str], gone: str, commit: Commit, expected: Expected) -> Entry:
        """Make the table hold these rows, one for each value of ``by``, in one commit that carries ``commit``.

        A row is written only where a column of it differs, and deleted if its column ``gone`` is true. NULL equals
        NULL. Raises what ``commit_merge`` raises.
        """
        quick = is_quick_to_merge(self.layout, expected.rows, text=expected.text)  # all partitions are merged into
        few = collected(rows) if quick else None
        if few is not None:
            return merge_quickly(self.layout, few, by, gone, commit)
        return self.merge(rows, keyed_spec(self.layout.names, by, gone), commit)

    def store_compared(
        self,
        compare_few: Callable[[DataFrame], DataFrame],
        compare_many: Callable[[DataFrame], tuple[DataFrame, MergeSpec]],
        commit: Commit,
        expected: Expected,
    ) -> Entry:
        """Store new rows, one for each key of the layout, that are compared with the stored rows, in one commit.

        Both functions are given stored rows. ``compare_few`` returns the rows to store: every column, and whether the
        row is stale (``_stale``). ``compare_many`` returns what Spark merges, and how: only where a row meets the very
        row that it was compared with. Raises what ``commit_merge`` raises, ``ValueError`` where the layout has no key.
        """
        if not self.layout.key:
            raise ValueError(f"{self.layout.name} has no key by which rows could be compared")
        entry = self._store_few(compare_few, commit, expected)
        return self.merge(*compare_many(self.rows()), commit) if entry is None else entry

    def _store_few(
        self, compare_few: Callable[[DataFrame], DataFrame], commit: Commit, expected: Expected
    ) -> Entry | None:
        """Compare with the version that the commit was planned on, and store without Spark what makes it on no other.

        ``None`` where Spark has to, and nothing is written then.
        """
        count, partitions = expected.rows, expected.partitions
        if not count or not is_quick_to_merge(self.layout, count, partitions, expected.text):
            return None
        rows = collected(compare_few(self.rows_covering(commit.table_version, partitions)))
        if rows is None or rows.nbytes > MOST_HELD:  # values that are stored, of which nobody knew
            return None
        # a key that stands twice, which Delta refuses; or no row to store: deltalake commits none
        if rows.num_rows != count or pc.all(rows[STALE]).as_py():
            return None
        try:
            return store_quickly(self.layout, rows, self.layout.key, partitions, commit)
        except LockedError:
            raise
        except ConflictError:  # Spark goes on where somebody else committed and touched none of its rows
            return None

    def replace_rows(self, rows: DataFrame, commit: Commit) -> Entry:
        """Replace every row, and the types of the columns; those that are declared no longer stay, and hold nothing.

        The rows are held, or come from another table: what is replaced is not read again.
        Raises what ``commit_overwrite`` raises.
        """
        for column in self.layout.columns:
            rows = rows.withMetadata(column.name, {"comment": column.doc})
        leave_statistics(self.spark, self.layout)
        others = [field for field in self.rows().schema if field.name not in self.layout.names]
        rows = rows.withColumns({field.name: F.lit(None).cast(field.dataType) for field in others})
        with alone(self.layout):
            return commit_overwrite(self.spark, self.layout, rows, commit)

    def commit_nothing(self, commit: Commit) -> Entry:
        """Make a commit that holds no row and no file, whatever columns the table has: Delta writes it all the same."""
        nothing = self.rows().where("false")
        return self.merge(nothing, MergeSpec("false", insert=from_source(nothing.columns)), commit)

    def upkeep(self, statement: str, run: str) -> None:
        """Run a statement that changes no row; raises ``ConflictError`` where another writer was first."""
        upkeep(self.spark, self.layout, statement, run)
