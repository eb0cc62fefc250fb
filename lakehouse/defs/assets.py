"""The assets of a declared table: one function for each kind of asset."""

from pathlib import Path

import dagster as dg

from lakehouse.batch import ingest, load
from lakehouse.declaration import Reference, Rollup, StreamTable
from lakehouse.defs import results, specs
from lakehouse.defs.config import BaseConfig, MergeConfig
from lakehouse.defs.maintenance import maintenance_asset
from lakehouse.defs.steps import Done, Run, step_of
from lakehouse.defs.waiting import look_ahead
from lakehouse.delta.audit import batches_accounted, changes_kept
from lakehouse.delta.engine import PATIENCE, merged_ledger
from lakehouse.derive import refresh
from lakehouse.derive.changes import Derived
from lakehouse.upkeep import verify

Asset = dg.AssetsDefinition | dg.AssetSpec


def assets_of(table: StreamTable) -> list[Asset]:
    """Everything that is kept for a declared table."""
    return [
        specs.topic_spec(table),
        *(reference_asset(table, reference) for reference in table.references),
        *([base_asset(table)] if table.base else []),
        merged_asset(table),
        changes_asset(table),
        *(rollup_asset(table, rollup) for rollup in table.rollups),
        maintenance_asset(table),
    ]


def reference_asset(table: StreamTable, reference: Reference) -> dg.AssetsDefinition:
    """A reference table, brought up to its file."""

    def load_file(run: Run) -> Done:
        done = load.load_reference(run.engine, reference)
        figures = ("rows", "inserted", "updated", "deleted")
        return Done({reference.name: {name: getattr(done, name) for name in figures}})

    return step_of(table, load_file, [specs.reference_spec(table, reference)])


def base_asset(table: StreamTable) -> dg.AssetsDefinition:
    """The base rows; a second run over the same files changes nothing."""

    def load_files(run: Run) -> Done:
        folder = Path(run.config.folder) if run.config.folder else None
        done = load.load_base(run.engine, folder)
        figures = ("files", "rows", "duplicate", "inserted", "updated")
        facts = {"folder": dg.MetadataValue.path(str(done.folder)), **{name: getattr(done, name) for name in figures}}
        return Done({table.base_name: facts})

    return step_of(table, load_files, [specs.base_spec(table)], config=BaseConfig)


def merged_asset(table: StreamTable) -> dg.AssetsDefinition:
    """The merged table and its rejected records: written by the same batches, so always together."""

    def merge(run: Run) -> Done:
        _, plan = look_ahead(run.settings, table, PATIENCE)
        request = run.config.request(plan)
        log = run.context.log
        done = ingest.merge_all(run.engine, request, lambda outcome: log.info(str(outcome)))
        ledger = merged_ledger(run.settings, table)
        facts = {**results.accounting(done, ledger.totals), **results.reading(done, plan)}
        found = batches_accounted(ledger.entries, [outcome.entry for outcome in done])
        return Done({table.name: facts, table.rejected_name: {"rejected": facts["rejected"]}}, [found])

    doc = "What the run committed accounts for every record, no key it touched stands twice, and it goes on where the"
    doc += " commit before it ended."
    check = dg.AssetCheckSpec("batches_accounted", asset=table.name, description=doc)
    return step_of(table, merge, [specs.merged_spec(table), specs.rejected_spec(table)], [check], MergeConfig)


def changes_asset(table: StreamTable) -> dg.AssetsDefinition:
    """The change feed, brought up to the merged table."""

    def update(run: Run) -> Done:
        done = refresh.refresh_changes(run.engine)
        return Done({done.name: _facts(done)}, [changes_kept(reconciled=done.rebuilt)])

    doc = "What the run wrote are changes that the table recorded, and no net difference found afterwards."
    check = dg.AssetCheckSpec("changes_kept", asset=table.changes_name, description=doc)
    return step_of(table, update, [specs.changes_spec(table)], [check])


def rollup_asset(table: StreamTable, rollup: Rollup) -> dg.AssetsDefinition:
    """An aggregate, brought up to the merged table."""

    def update(run: Run) -> Done:
        done = refresh.refresh_rollup(run.engine, rollup)
        found = verify.verify_touched(run.engine, rollup, done)
        return Done({done.name: _facts(done)}, [found])

    doc = f"{rollup.name} stored the groups that the run touched as it computed them from {table.name}."
    check = dg.AssetCheckSpec("touched_groups_stored", asset=rollup.name, description=doc)
    return step_of(table, update, [specs.rollup_spec(table, rollup)], [check])


def _facts(done: Derived) -> results.Facts:
    return {name: fact for name, fact in done.facts.items() if name not in ("name", "version")}
