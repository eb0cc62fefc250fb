"""The changes of the merged table since the version that a derived table has consumed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.errors import ConflictError
from lakehouse.errors.troubles import PASSING, find_trouble
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.consumption import Consumption, version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.spark.own_session import rows_expected
from lakehouse.storage.merge_spec import comparable, comparable_row
from lakehouse.storage.row_changes import ChangesGoneError, OtherColumnsError, change_failures
from lakehouse.storage.row_order import identity
from lakehouse.storage.statement import session_settings
from lakehouse.storage.stored_table import StoredTable

_ALLOW_OTHER_COLUMNS = {
    "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true"
}
# the changes that were read last: feed and rollups of a table usually read the same
_CACHED_CHANGES: list[tuple[object, DataFrame | None]] = []


@dataclass(frozen=True)
class Derived:
    """The result of one update of a derived table.

    ``source_version`` is the version of the merged table that it now corresponds to. ``changed`` is the number of rows
    that were inserted, updated or deleted. ``rebuilt``: it was computed from all rows and not from the changes.
    ``computed_groups`` are the changed groups of a rollup as computed; ``None`` if there are none.
    """

    name: str
    version: int
    source_version: int
    changed: int
    rebuilt: bool
    computed_groups: DataFrame | None = field(default=None, repr=False, compare=False)

    @property
    def facts(self) -> dict[str, int | str | bool]:
        """The values of the result by name, without ``computed_groups``."""
        return {name: getattr(self, name) for name in ("name", "version", "source_version", "changed", "rebuilt")}


@dataclass(frozen=True)
class Upstream:
    """The merged table of a derived table, with its declaration and its ledger."""

    table: StreamTable
    merged: StoredTable
    ledger: Ledger

    @property
    def read_version(self) -> int:
        """The version to read: it has the rows of the version to consume, in files that still exist."""
        return self.ledger.version

    def as_of(self, version: int) -> "Upstream":
        """Return the table as of an earlier version, read from the newest version with the same rows."""
        read_version = min(self.ledger.next_change(version) - 1, self.ledger.version)
        return replace(self, ledger=replace(self.ledger, version=read_version))

    @property
    def row_columns(self) -> dict[str, str]:
        """The types of the columns outside the key, by name: declared columns and the partition column."""
        return {column.name: column.type for column in self.table.stored_columns if column.name not in self.table.key}


@contextmanager
def changes_since(upstream: Upstream, consumption: Consumption) -> Iterator[DataFrame | None]:
    """Yield the net changes since a version, read once for all derived tables of a table in this session.

    If the block fails, the changes are read again the next time: the cached data may be lost.
    """
    spark, uri = upstream.merged.spark, upstream.merged.layout.uri
    newest = version_to_consume(upstream.ledger)
    cache_key = (spark, uri, upstream.table.fingerprint, consumption.consumed, newest)
    cached_key, changes = _CACHED_CHANGES.pop() if _CACHED_CHANGES else (None, None)
    if changes is None or cached_key != cache_key:
        with rows_expected(spark, consumption.changed_rows):
            changes = net_changes(upstream, consumption)
    yield changes
    _CACHED_CHANGES[:] = [(cache_key, changes)]


def net_changes(upstream: Upstream, consumption: Consumption) -> DataFrame | None:
    """Return the net changes of the merged table since a version, or ``None`` if they can no longer be read.

    There is one row for each key (in a log table: record) and version that changed it, with the key,
    ``source_version``, ``committed_at``, ``_before`` and ``_after``. The last two are structs of the other columns, and
    NULL if there is no such row. If both are equal, there is no change.
    """
    if consumption.consumed and not consumption.has_source:
        return None
    start = consumption.next_version
    try:
        with change_failures():
            return _read_changes(upstream, start).localCheckpoint()
    except OtherColumnsError:
        return _read_across_other_columns(upstream, start)
    except ChangesGoneError:
        return None


def _read_across_other_columns(upstream: Upstream, start: int) -> DataFrame | None:
    """Read changes of versions with other columns, as before a rewrite; return ``None`` if that is not possible.

    By default, Delta refuses such a range as a whole. This reads only declared columns, which the table has now. The
    read fails if one of them was missing or had another type in a version.
    """
    try:
        with session_settings(upstream.merged.spark, _ALLOW_OTHER_COLUMNS), change_failures():
            return _read_changes(upstream, start).localCheckpoint()
    except (OtherColumnsError, ChangesGoneError):
        return None
    except AnalysisException as error:
        if find_trouble(error, PASSING):
            raise
        return None


def _read_changes(upstream: Upstream, start: int) -> DataFrame:
    changes = upstream.merged.changes(start, upstream.ledger.rows_version)
    types, greatest = upstream.row_columns, _greatest_row(upstream.row_columns)
    before = F.expr(f"{greatest} FILTER (WHERE _change_type IN ('update_preimage', 'delete'))")
    after = F.expr(f"{greatest} FILTER (WHERE _change_type IN ('update_postimage', 'insert'))")
    # other programs may write several rows of one record, even equal rows, into a log table: count all of them
    surplus = "sum(IF(_change_type IN ('insert', 'update_postimage'), 1, -1))" if upstream.table.is_log else "0"
    value_columns = [F.expr(comparable(f"`{name}`", type_)).alias(name) for name, type_ in types.items()]
    groups = changes.groupBy(
        *map(F.expr, identity(upstream.table)), *(value_columns if upstream.table.is_log else []), "_commit_version"
    )
    net_rows = groups.agg(
        F.max("_commit_timestamp").alias("committed_at"),
        before.alias(staged.BEFORE),
        after.alias(staged.AFTER),
        F.expr(surplus).alias("_surplus"),
    )
    is_equal = f"{comparable_row(staged.BEFORE, types)} <=> {comparable_row(staged.AFTER, types)}"
    is_changed = f"NOT ({is_equal}) OR _surplus <> 0"
    return net_rows.withColumnRenamed("_commit_version", "source_version").where(is_changed).drop("_surplus")


def _greatest_row(types: Mapping[str, str]) -> str:
    """Return SQL for the greatest of several rows: with duplicate keys, from other programs, the choice is stable."""
    row = f"struct({', '.join(f'`{name}`' for name in types)})"
    order = f"struct({', '.join(comparable(f'`{name}`', type_) for name, type_ in types.items())})"
    return f"max({row})" if order == row else f"max_by({row}, {order})"


def consumption_of(ledger: Ledger, upstream: Upstream) -> Consumption:
    """Return how far a derived table is; ``ConflictError`` if another process has derived a newer version meanwhile."""
    consumption = Consumption(upstream.ledger, ledger.consumed)
    if consumption.is_ahead and not consumption.is_of_lost_version:
        message = f"Another process has derived a newer version of {upstream.table.name}"
        raise ConflictError(message, where=ledger.uri, action="Nothing was written. Run it again.")
    return consumption


def derived_commit(ledger: Ledger, upstream: Upstream, run: str) -> Commit:
    """Build the commit of a derived table that consumes the merged table up to its version."""
    consumed = version_to_consume(upstream.ledger)
    return ledger.next_commit("derived", run).with_fields(consumed=consumed, declaration=upstream.table.fingerprint)


def derived_from(name: str, upstream: Upstream, entry: Entry, *, rebuilt: bool) -> Derived:
    """Return the result of an update from the commit of a derived table."""
    metrics = entry.metrics
    changed_count = metrics.inserted + metrics.updated + metrics.deleted
    return Derived(name, entry.version, upstream.ledger.rows_version, changed_count, rebuilt)
