"""Report commits to Dagster that no run reported. The tick of the sensor reports each version of a table once.

The command line writes without Dagster, and a run that fails after a commit does not report it. The history of the
table is the authority. The version that Dagster knows is the one in the table's newest materialization.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs import figures, results
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.runs import COMMITTED_AT, unfinished_run
from lakehouse.defs.specs import table_specs
from lakehouse.errors import LakehouseError, StoreUnreachableError
from lakehouse.ledger.audit import Finding, batches_accounted, changes_kept
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.ledger.log import holds_version, open_table
from lakehouse.operations import verify
from lakehouse.settings import Settings
from lakehouse.storage.table_context import merged_ledger

_ROW_COUNTS = ("inserted", "updated", "deleted")
_KINDS_WITHOUT_MERGE = (
    "maintenance",
    "purge",
    "rewrite",
    "acceptance",
    "wait",
)  # these commits add no rows from records or files


class CommitReporter:
    """Reports the commits of a declaration's tables to Dagster. The sensor keeps one reporter over all its ticks.

    The reporter remembers the version that Dagster knows of each table. If nothing was written, a tick does not query
    Dagster.
    """

    def __init__(self, catalog_entry: CatalogEntry) -> None:
        self._catalog_entry = catalog_entry
        self._specs = table_specs(catalog_entry)
        self._reported_versions: dict[str, int] = {}

    def report(self, instance: dg.DagsterInstance, settings: Settings, location: str | None) -> None:
        """Report each table that was written since its last report, and its checks that need no Spark session.

        If an unfinished run writes a table, that run reports it. A table that cannot be read is skipped: the steps that
        need it report the error. A second call reports nothing. ``location`` is the code location of the sensor.
        """
        for spec in self._specs:
            try:
                self._report(instance, _ReportedTable(self._catalog_entry, spec, settings), location)
            except StoreUnreachableError:
                return  # the other tables are in the same store, and a tick must end within seconds
            except LakehouseError:
                continue

    def _report(self, instance: dg.DagsterInstance, table: "_ReportedTable", location: str | None) -> None:
        if table.uri in self._reported_versions and not table.differs(self._reported_versions[table.uri]):
            return
        entry = self._catalog_entry
        writer_key = entry.merged_key if table.name == entry.table.rejected_name else table.spec.key
        is_being_written = unfinished_run(instance, writer_key, location, entry.maintain_job) or unfinished_run(
            instance, entry.replayed_key, location
        )
        # Read the version after looking for runs: it then includes what a run reported that has just ended.
        version, table_id = _reported_state(instance, table.spec.key)
        self._reported_versions[table.uri] = version
        if is_being_written or not table.differs(version):
            return
        ledger = table.ledger()
        if table_id not in (None, ledger.table_id):
            version = -1  # all commits of a table that was created again
        _report_commits(instance, table, ledger, version)
        self._reported_versions[table.uri] = ledger.version


def _report_commits(instance: dg.DagsterInstance, table: "_ReportedTable", ledger: Ledger, last_version: int) -> None:
    """Report a table at the version of its ledger, with the commits after the last reported version."""
    key = table.spec.key
    commits = [entry for entry in ledger.entries if entry.version > last_version]
    has_same_rows = 0 <= last_version < ledger.version < ledger.next_change(last_version)
    tags = _reported_tags(instance, key) if has_same_rows else {}
    event = dg.AssetMaterialization(
        key,
        description=f"Commits that no Dagster run reported: {_count_kinds(commits)}.",
        metadata={**table.metadata(ledger, commits), **_merged_at(ledger)},
        tags={results.DATA_VERSION: str(ledger.version), **tags},
    )
    instance.report_runless_asset_event(event)
    for finding in table.findings(ledger, commits):
        instance.report_runless_asset_event(results.check_evaluation(finding, key))


def _newest_materialization(instance: dg.DagsterInstance, key: dg.AssetKey) -> dg.AssetMaterialization | None:
    event = instance.get_latest_materialization_event(key)
    return event.asset_materialization if event else None


def _reported_state(instance: dg.DagsterInstance, key: dg.AssetKey) -> tuple[int, str | None]:
    """The version of a table that Dagster knows, and the id of the table; -1 and ``None`` if it knows none."""
    newest = _newest_materialization(instance, key)
    metadata = newest.metadata if newest else {}
    version, table_id = metadata.get("table_version"), metadata.get("table_id")
    number = version.value if isinstance(version, dg.IntMetadataValue) else None
    text = table_id.value if isinstance(table_id, dg.TextMetadataValue) else None
    return -1 if number is None else number, text


def known_version(instance: dg.DagsterInstance, key: dg.AssetKey, ledger: Ledger) -> int:
    """The version of a table that Dagster knows when a run starts: the present one if it knows none of this table."""
    version, table_id = _reported_state(instance, key)
    is_known = version >= 0 and table_id in (None, ledger.table_id)
    return min(version, ledger.version) if is_known else ledger.version


def _reported_tags(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """The data version that Dagster knows. It stays the same if no row changed since."""
    newest = _newest_materialization(instance, key)
    tags = (newest.tags or {}) if newest else {}
    return {name: value for name, value in tags.items() if name == results.DATA_VERSION}


def _count_kinds(commits: Sequence[Entry]) -> str:
    counts = Counter(entry.commit.kind for entry in commits)
    return ", ".join(f"{kind} ({count})" for kind, count in sorted(counts.items())) or "commits of other programs"


def _merged_at(ledger: Ledger) -> dict[str, dg.TimestampMetadataValue]:
    """When rows were last merged. The pause after a failed run ends by this time, not by the time of the report."""
    merged = next((entry for entry in ledger.entries if entry.commit.kind not in _KINDS_WITHOUT_MERGE), None)
    return {COMMITTED_AT: dg.MetadataValue.timestamp(merged.committed_at)} if merged else {}


@dataclass(frozen=True)
class _ReportedTable:
    """A table of a declaration, and what the reporter reports about it."""

    catalog_entry: CatalogEntry
    spec: dg.AssetSpec
    settings: Settings

    @property
    def name(self) -> str:
        return self.spec.key.path[-1]

    @property
    def declaration(self) -> StreamTable:
        return self.catalog_entry.table

    @property
    def uri(self) -> str:
        return self.settings.table_uri(self.name)

    def differs(self, version: int) -> bool:
        """Whether the table has a version after this one, or ends before it: then it was created again, or restored.

        Looks only for the names of two log files. Opens the table if the log has neither of them, or if the version is
        unknown (-1).
        """
        if version >= 0 and holds_version(self.uri, version + 1):
            return True
        if version >= 0 and holds_version(self.uri, version):
            return False
        table = open_table(self.uri)
        return table is not None and table.version() != version

    def ledger(self) -> Ledger:
        if self.name == self.declaration.name:
            return merged_ledger(self.settings, self.declaration)
        return read_ledger(self.uri, self.name)

    def metadata(self, ledger: Ledger, commits: Sequence[Entry]) -> dict[str, Any]:
        """The current state of the table, and what the commits did, as far as the newest part of its history shows."""
        state = {**results.table_facts(self.spec, self.settings), "table_version": ledger.version}
        declaration = self.declaration
        if self.name == declaration.name:
            return {**state, **figures.count_commits(commits, ledger)}
        if self.name == declaration.rejected_name:
            merged = merged_ledger(self.settings, declaration)
            rejected = sum(entry.metrics.inserted for entry in commits)
            return {**state, **figures.count_rejections(self.settings, declaration, merged, rejected)}
        source = {"source_version": ledger.consumed.version} if ledger.consumed else {}
        counts = {f"rows_{name}": sum(getattr(e.metrics, name) for e in commits) for name in _ROW_COUNTS}
        return {**state, **source, **figures.without_zeros(counts)}

    def findings(self, ledger: Ledger, commits: Sequence[Entry]) -> list[Finding]:
        """The findings of the table's checks that need only its history. The checks of a rollup need its rows."""
        if self.name == self.declaration.name:
            return [batches_accounted(ledger, commits), verify.rejected_share(ledger)]
        if self.name == self.declaration.changes_name and not self.declaration.is_log:
            return [changes_kept(reconciled=any(entry.commit.reconciled for entry in commits))]
        return []
