"""What changed in the merged table since a version that a derived table has consumed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.errors.troubles import PASSING, Trouble, is_gone, means, trouble_of
from lakehouse.ledger.commits import Commit, Consumed, Entry
from lakehouse.ledger.ledger import Ledger, still_holds, to_consume
from lakehouse.spark.sessions import rows_expected
from lakehouse.storage.comparison import comparable, comparable_row
from lakehouse.storage.row_order import identity
from lakehouse.storage.statement import session_settings
from lakehouse.storage.stored_table import StoredTable

_OTHER_COLUMNS = {"spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true"}
# what was read last: feed and rollups of a table mostly ask for the same
_HELD: list[tuple[object, DataFrame | None]] = []
_NO_CHANGES = (Trouble.OTHER_COLUMNS, Trouble.GONE)


@dataclass(frozen=True)
class Derived:
    """What one update of a derived table did.

    ``source_version`` is the version of the merged table it now stands for, ``changed`` how many rows
    were inserted, updated or deleted. ``rebuilt``: it was made anew instead of from the changes. ``written`` are,
    of a rollup, the groups it touched as they were computed; ``None`` where it touched none.
    """

    name: str
    version: int
    source_version: int
    changed: int
    rebuilt: bool
    written: DataFrame | None = field(default=None, repr=False, compare=False)

    @property
    def facts(self) -> dict[str, int | str | bool]:
        """What it did, in figures."""
        return {name: getattr(self, name) for name in ("name", "version", "source_version", "changed", "rebuilt")}


@dataclass(frozen=True)
class Upstream:
    """The merged table a derived table follows, with its declaration and its ledger."""

    table: StreamTable
    merged: StoredTable
    ledger: Ledger

    @property
    def read_version(self) -> int:
        """The version to read: it has the rows of the version to consume, in files that are kept."""
        return self.ledger.version

    def as_of(self, version: int) -> "Upstream":
        """The same table as an earlier version had it, read from the newest version with the same rows."""
        newest = min(self.ledger.next_change(version) - 1, self.ledger.version)
        return replace(self, ledger=replace(self.ledger, version=newest))

    @property
    def row_columns(self) -> dict[str, str]:
        """What a row says besides its key, by type: declared columns and the partition column."""
        return {column.name: column.type for column in self.table.stored if column.name not in self.table.key}


def changed_rows(upstream: Upstream, consumed: Consumed | None) -> int | None:
    """How many rows changed since a version, as our commits tell; ``None`` where others committed, or there is none."""
    if consumed is None:
        return None
    ledger = upstream.ledger
    counted = {entry.version: entry.metrics for entry in ledger.entries}
    versions = [v for v in range(consumed.version + 1, ledger.version + 1) if v not in ledger.unchanged]
    if not all(version in counted for version in versions):
        return None
    return sum(counted[v].inserted + counted[v].updated + counted[v].deleted for v in versions)


@contextmanager
def changes_since(upstream: Upstream, consumed: Consumed | None) -> Iterator[DataFrame | None]:
    """The net changes since a version, read once for all that derives from the table in this session.

    Where the work with them fails, they are read anew the next time: what was held may be what is gone.
    """
    spark, uri = upstream.merged.spark, upstream.merged.layout.uri
    asked = (spark, uri, upstream.table.fingerprint, consumed, to_consume(upstream.ledger))
    before, changes = _HELD.pop() if _HELD else (None, None)
    if changes is None or before != asked:
        with rows_expected(spark, changed_rows(upstream, consumed)):
            changes = net_changes(upstream, consumed)
    yield changes
    _HELD[:] = [(asked, changes)]


def net_changes(upstream: Upstream, consumed: Consumed | None) -> DataFrame | None:
    """Return the changes of the merged table since a version, netted, or ``None`` where they are gone.

    Out: one row for each key (of a log table: record) and version that changed it: the key, ``source_version``,
    ``committed_at``, ``_before`` and ``_after`` (structs of the other columns, NULL where there was or is no row). A
    pair that is equal in all of them is no change.
    """
    if consumed and not still_holds(upstream.ledger, consumed):
        return None
    start = upstream.ledger.next_change(consumed.version) if consumed else 0
    try:
        return _read_changes(upstream, start).localCheckpoint()
    except (PySparkException, Py4JJavaError) as error:
        if means(error, Trouble.OTHER_COLUMNS):
            return _over_other_columns(upstream, start)
        if is_gone(error):
            return None
        raise


def _over_other_columns(upstream: Upstream, start: int) -> DataFrame | None:
    """Read changes of versions that had other columns, as before a rewrite; ``None`` where that cannot be.

    Delta refuses such a range as a whole. No columns are read but the declared ones, which the table has now; where one
    was missing or of another type in between, the read fails.
    """
    try:
        with session_settings(upstream.merged.spark, _OTHER_COLUMNS):
            return _read_changes(upstream, start).localCheckpoint()
    except (PySparkException, Py4JJavaError) as error:
        trouble = trouble_of(error, (*PASSING, *_NO_CHANGES))
        if trouble in _NO_CHANGES or (trouble is None and isinstance(error, AnalysisException)):
            return None
        raise


def _read_changes(upstream: Upstream, start: int) -> DataFrame:
    changes = upstream.merged.changes(start, upstream.ledger.rows_version)
    types, each = upstream.row_columns, _greatest(upstream.row_columns)
    before = F.expr(f"{each} FILTER (WHERE _change_type IN ('update_preimage', 'delete'))")
    after = F.expr(f"{each} FILTER (WHERE _change_type IN ('update_postimage', 'insert'))")
    # rows of a log table that somebody else wrote may say the same of their record, or all the same: each is counted
    more = "sum(IF(_change_type IN ('insert', 'update_postimage'), 1, -1))" if upstream.table.is_log else "0"
    own = [F.expr(comparable(f"`{name}`", type_)).alias(name) for name, type_ in types.items()]
    grouped = changes.groupBy(
        *map(F.expr, identity(upstream.table)), *(own if upstream.table.is_log else []), "_commit_version"
    )
    netted = grouped.agg(
        F.max("_commit_timestamp").alias("committed_at"),
        before.alias(staged.BEFORE),
        after.alias(staged.AFTER),
        F.expr(more).alias("_more"),
    )
    differ = f"NOT ({comparable_row(staged.BEFORE, types)} <=> {comparable_row(staged.AFTER, types)}) OR _more <> 0"
    return netted.withColumnRenamed("_commit_version", "source_version").where(differ).drop("_more")


def _greatest(types: Mapping[str, str]) -> str:
    """Of rows of these columns the greatest, in SQL: of several of a key, which only others write, always the same."""
    row = f"struct({', '.join(f'`{name}`' for name in types)})"
    order = f"struct({', '.join(comparable(f'`{name}`', type_) for name, type_ in types.items())})"
    return f"max({row})" if order == row else f"max_by({row}, {order})"


def derived_commit(ledger: Ledger, upstream: Upstream, run: str) -> Commit:
    """Build the commit of a derived table that consumes the merged table up to its version."""
    consumed = to_consume(upstream.ledger)
    return ledger.next_commit("derived", run).with_fields(consumed=consumed, declaration=upstream.table.fingerprint)


def derived_from(name: str, upstream: Upstream, entry: Entry, *, rebuilt: bool) -> Derived:
    """Tell what the commit of a derived table did."""
    counted = entry.metrics
    changed = counted.inserted + counted.updated + counted.deleted
    return Derived(name, entry.version, upstream.ledger.rows_version, changed, rebuilt)
