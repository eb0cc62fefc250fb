"""What was written without a run that told Dagster, told by the sensor's next tick: each version of a table once.

The command line writes without Dagster, and a run that fails behind a commit does not report it. The table's history is
the authority; what Dagster knows of a table is the version that its newest materialization names.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs import results
from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.retries import COMMITTED_AT
from lakehouse.defs.runs import unfinished_run
from lakehouse.defs.specs import table_specs
from lakehouse.errors import LakehouseError, StoreUnreachableError
from lakehouse.ledger.audit import Finding, batches_accounted, changes_kept
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.ledger.log import holds_version, open_table
from lakehouse.operations import verify
from lakehouse.settings import Settings
from lakehouse.storage.table_context import merged_ledger

_SAME_ROWS = ("maintenance", "rewrite", "acceptance")  # kinds of commits behind which nothing was merged


class CommitReporter:
    """Tells Dagster what was written to the tables of a declaration; kept by its sensor from tick to tick.

    It remembers which versions Dagster knows, so that a tick after which nothing was written asks Dagster nothing.
    """

    def __init__(self, listed: Listed) -> None:
        self._listed = listed
        self._specs = table_specs(listed)
        self._known: dict[str, int] = {}

    def report(self, instance: dg.DagsterInstance, settings: Settings) -> None:
        """Report each table that was written since Dagster heard of it, and its checks that cost no session.

        A table that an unfinished run writes is left to that run. One that cannot be read is left out: whoever reads it
        for its own sake says why. A second call reports nothing.
        """
        for spec in self._specs:
            try:
                self._report(instance, _Told(self._listed, spec, settings))
            except StoreUnreachableError:
                return  # the others are in the same store, and a tick ends within seconds
            except LakehouseError:
                continue

    def _report(self, instance: dg.DagsterInstance, told: "_Told") -> None:
        if told.uri in self._known and not told.is_newer(self._known[told.uri]):
            return
        keys = told.spec.key, self._listed.key(self._listed.maintenance)
        writing = any(unfinished_run(instance, key) for key in keys)
        known = _known_version(instance, told.spec.key)  # after that: what a run wrote that has ended is told
        self._known[told.uri] = known
        if writing or not told.is_newer(known):
            return
        ledger = told.ledger()
        _tell(instance, told, ledger, known)
        self._known[told.uri] = ledger.version


def _tell(instance: dg.DagsterInstance, told: "_Told", ledger: Ledger, known: int) -> None:
    """Report a table at the version of its ledger, and what was written behind the one that is known."""
    key = told.spec.key
    written = [entry for entry in ledger.entries if entry.version > known]
    tags = _tags_known(instance, key) if known >= 0 and ledger.next_change(known) > ledger.version else {}
    event = dg.AssetMaterialization(
        key,
        description=f"Written without a run that told of it: {_kinds(written)}.",
        metadata={**told.facts(ledger, written), **_merged_at(ledger)},
        tags={results.DATA_VERSION: str(ledger.version), **tags},
    )
    instance.report_runless_asset_event(event)
    for found in told.findings(ledger, written):
        instance.report_runless_asset_event(results.evaluated(found, key))


def _newest(instance: dg.DagsterInstance, key: dg.AssetKey) -> dg.AssetMaterialization | None:
    event = instance.get_latest_materialization_event(key)
    return event.asset_materialization if event else None


def _known_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> int:
    """The version of a table that Dagster knows; -1 where it knows of none."""
    newest = _newest(instance, key)
    version = newest.metadata.get("table_version") if newest else None
    return version.value if isinstance(version, dg.IntMetadataValue) and version.value is not None else -1


def _tags_known(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """The data version that Dagster knows: where no row changed since, it is still that."""
    newest = _newest(instance, key)
    tags = (newest.tags or {}) if newest else {}
    return {name: value for name, value in tags.items() if name == results.DATA_VERSION}


def _kinds(written: Sequence[Entry]) -> str:
    counted = Counter(entry.commit.kind for entry in written)
    return ", ".join(f"{kind} ({many})" for kind, many in sorted(counted.items())) or "no commit of ours"


def _merged_at(ledger: Ledger) -> dict[str, dg.TimestampMetadataValue]:
    """When rows were merged last: that counts for a failed run, not when it was reported."""
    merged = next((entry for entry in ledger.entries if entry.commit.kind not in _SAME_ROWS), None)
    return {COMMITTED_AT: dg.MetadataValue.timestamp(merged.committed_at)} if merged else {}


@dataclass(frozen=True)
class _Told:
    """A table of a declaration, and what is told of it."""

    listed: Listed
    spec: dg.AssetSpec
    settings: Settings

    @property
    def name(self) -> str:
        return self.spec.key.path[-1]

    @property
    def table(self) -> StreamTable:
        return self.listed.table

    @property
    def uri(self) -> str:
        return self.settings.table_uri(self.name)

    def is_newer(self, known: int) -> bool:
        """Whether the table has a version behind this one.

        That costs a look at the names of two files; where the log holds neither, or no version is known, one at the
        table.
        """
        if known >= 0 and holds_version(self.uri, known + 1):
            return True
        if known >= 0 and holds_version(self.uri, known):
            return False
        table = open_table(self.uri)
        return table is not None and table.version() > known

    def ledger(self) -> Ledger:
        if self.name == self.table.name:
            return merged_ledger(self.settings, self.table)
        return read_ledger(self.uri, self.name)

    def facts(self, ledger: Ledger, written: Sequence[Entry]) -> dict[str, Any]:
        """The table as it is now, and what was done to it, as far as the newest part of its history tells."""
        now = {**results.table_facts(self.spec, self.settings), "table_version": ledger.version}
        if self.name == self.table.name:
            return {**now, **results.committed(written, ledger.totals)}
        if self.name == self.table.rejected_name:
            return {**now, **results.rejected(self.settings, self.table, merged_ledger(self.settings, self.table))}
        source = {"source_version": ledger.consumed.version} if ledger.consumed else {}
        counted = ("inserted", "updated", "deleted")
        return {**now, **source, **{name: sum(getattr(e.metrics, name) for e in written) for name in counted}}

    def findings(self, ledger: Ledger, written: Sequence[Entry]) -> list[Finding]:
        """What the checks of the table find that need its history alone; those of a rollup need its rows."""
        if self.name == self.table.name:
            return [batches_accounted(ledger, written), verify.rejected_share(ledger)]
        if self.name == self.table.changes_name and not self.table.is_log:
            return [changes_kept(reconciled=any(entry.commit.reconciled for entry in written))]
        return []
