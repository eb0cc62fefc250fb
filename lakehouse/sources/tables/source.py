"""Another Delta table as a source of records."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sources import TableRows
from lakehouse.decoding import staged
from lakehouse.errors import SourceError
from lakehouse.ledger.commit_infos import identity_of
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table, read_commit
from lakehouse.ledger.positions import VERSION_PLACES, Plan
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse.settings.store import Store
from lakehouse.sources.source import Source
from lakehouse.sources.tables.lost import CHANGE_DATA, has_rows, lost_versions, plan_failures
from lakehouse.sources.tables.versions import (
    ADDED,
    CHANGES,
    KIND_FIELD,
    MAX_VERSIONS,
    RECORD_FIELDS,
    ROWS,
    TableState,
    changed_rows,
    ends_of,
    first_after,
    source_id,
    split_at,
    starts_of,
    versions_in,
)
from lakehouse.storage.row_changes import list_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class TableSource(Source):
    """The rows of a table as of the version with which its reader began, and each change since."""

    settings: Settings
    table: StreamTable
    rows: TableRows

    @property
    def uri(self) -> str:
        """The path or URI of the table that is read."""
        of = self.rows.of
        is_name = Store(of).is_path and not Path(of).is_absolute()
        return self.settings.table_uri(of) if is_name else of

    @property
    def unordered_group(self) -> str:
        """The rows that one version adds, if no lakehouse wrote them: only those of lakehouse have an order."""
        types = {field.name: field.type for field in self._open().schema().fields}
        fields = getattr(types.get(RECORD), "fields", ())
        has_records = {field.name for field in fields} >= RECORD_FIELDS
        return "" if has_records else f"{staged.POSITION} div {ADDED}"

    def read_state(self, ledger: Ledger | None, limit: float) -> TableState:  # noqa: ARG002 - its log answers or fails
        """Read the log of the table, without a JVM. Raises ``SourceError`` if there is no table, or no change data.

        If the next version can no longer be read, that is a gap. A table with a key continues after it with the rows as
        they are now, a log with the next version that can be read. A later version that cannot be read ends what is
        held: what is before it is read first.
        """
        table = self._open()
        source, newest = source_id(str(table.metadata().id)), table.version()
        progress = ledger.progress if ledger else None
        if progress is None or progress.source != source:
            has_rows(self.uri, newest)  # raises if no later run could read them
            starts = starts_of(newest)
            return TableState(self.rows.of, source, starts, ends_of(newest, newest), starts={} if progress else starts)
        self._require_same_history(ledger)
        first, next_version = (progress.next_position(part) // VERSION_PLACES for part in (ROWS, CHANGES))
        earliest, end = starts_of(first), ends_of(first, newest)
        versions = range(next_version, min(newest + 1, next_version + MAX_VERSIONS))
        changes = list_changes(self.uri, versions.start, versions.stop - 1)
        gone_versions = lost_versions(self.uri, versions, changes)
        has_no_rows = progress.next_position(ROWS) < end[ROWS] and not has_rows(self.uri, first)
        if has_no_rows or (next_version in gone_versions and self.table.key):
            has_rows(self.uri, newest)
            earliest, end = starts_of(newest), ends_of(newest, newest)
        elif gone_versions:
            start = first_after(next_version, gone_versions)
            earliest |= {CHANGES: start * VERSION_PLACES} if start > next_version else {}
            end[CHANGES] = min((v for v in gone_versions if v > start), default=versions.stop) * VERSION_PLACES
        rows = {version.number: changed_rows(version.info) for version in changes}
        return TableState(self.rows.of, source, earliest, end, rows=rows)

    def _require_same_history(self, ledger: Ledger | None) -> None:
        """Raise if another commit made the version that was read last: a copy has taken the place of the table."""
        commit = ledger.last_commit if ledger else None
        consumed = commit.consumed_tables.get(self.rows.of) if commit else None
        info = read_commit(self.uri, consumed.version) if consumed and consumed.commit else None
        if consumed and info and identity_of(info) != consumed.commit:
            raise SourceError(
                f"Version {consumed.version} of the table that {self.table.name} reads is another one than was read",
                where=self.uri,
                action="An older copy of it has taken its place. Declare a table with another name.",
            )

    def consumed(self, plan: Plan) -> dict[str, Consumed]:
        """Return the last version of the plan, and the commit that made it."""
        last = max(part.end - 1 for part in plan.ranges) // VERSION_PLACES
        info, table_id = read_commit(self.uri, last), str(self._open().metadata().id)
        commit = identity_of(info) if info else None
        return {self.rows.of: Consumed(table_id=table_id, version=last, commit=commit)}

    def _open(self) -> DeltaTable:
        table = open_table(self.uri)
        if table is None:
            raise SourceError(
                f"The table that {self.table.name} reads does not exist",
                where=self.uri,
                action="Create it first, or correct source= in the declaration.",
            )
        with log_failures(self.uri):
            properties = table.metadata().configuration
        if properties.get(CHANGE_DATA) != "true":
            raise SourceError(
                f"The table that {self.table.name} reads keeps no change data",
                where=self.uri,
                action=f"Enable it: ALTER TABLE ... SET TBLPROPERTIES ('{CHANGE_DATA}' = 'true')",
            )
        return table

    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "DataFrame":
        """Read the rows as of the first version, and the changes of the planned versions."""
        from lakehouse.sources.tables.read import Kinds, read_table_rows  # noqa: PLC0415 - only a session needs Spark

        versions = [versions_in(part) for part in plan.ranges if part.span]
        changes = [version for each in versions for version in list_changes(self.uri, each.start, each.stop - 1)]
        rule = self.table.deletes.truncates
        begins_with_truncate = rule is not None and rule.path == (KIND_FIELD,)
        last = ledger.last_commit if ledger else None
        kinds = Kinds(
            self.rows.former_rows,
            truncates=begins_with_truncate,
            are_ordered=bool(self.table.key),
            versions_before=last.versions_before if last else 0,
        )
        changed_columns = {version.number for version in changes if version.properties is not None}
        ranges = [piece for part in plan.ranges for piece in split_at(part, changed_columns)]
        # programs with different clocks write a table, so the version orders the records, as their sequence
        times = {version: 0 for each in versions for version in each} | {v.number: v.microseconds for v in changes}
        return read_table_rows(spark, self.uri, ranges, times, kinds)

    def failures(self, plan: Plan, command: str) -> AbstractContextManager[None]:  # noqa: ARG002 - a replay cannot go on
        """Explain a failure, as ``plan_failures`` does."""
        return plan_failures(self.table.name, self.uri, plan)
