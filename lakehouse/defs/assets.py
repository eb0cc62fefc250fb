"""The assets of a declared table: one function for each kind of asset."""

from pathlib import Path
from typing import Any

import dagster as dg

from lakehouse.declaration import Reference, Rollup
from lakehouse.defs import results, specs
from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.config import BaseConfig, MergeConfig
from lakehouse.defs.maintenance_job import maintenance_asset
from lakehouse.defs.steps import Done, Run, step_of
from lakehouse.defs.waiting import look_ahead
from lakehouse.derived import refresh
from lakehouse.derived.changes import Derived
from lakehouse.ingest import batches, load
from lakehouse.kafka import PATIENCE
from lakehouse.ledger.audit import batches_accounted, changes_kept
from lakehouse.operations import verify
from lakehouse.operations.planned_changes import told_changes
from lakehouse.storage.table_context import merged_ledger

Asset = dg.AssetsDefinition | dg.AssetSpec


def assets_of(listed: Listed) -> list[Asset]:
    """Everything that is kept for a declared table."""
    table = listed.table
    return [
        specs.topic_spec(listed),
        *(reference_asset(listed, reference) for reference in table.references),
        *([base_asset(listed)] if table.base else []),
        merged_asset(listed),
        *([] if table.is_log else [changes_asset(listed)]),
        *(rollup_asset(listed, rollup) for rollup in table.rollups),
        maintenance_asset(listed),
    ]


def reference_asset(listed: Listed, reference: Reference) -> dg.AssetsDefinition:
    """A reference table, brought up to its file."""

    def load_file(run: Run) -> Done:
        done = load.load_reference(run.table_context, reference)
        figures = ("rows", "inserted", "updated", "deleted")
        return Done({reference.name: {name: getattr(done, name) for name in figures}})

    return step_of(listed, load_file, [specs.reference_spec(listed, reference)])


def base_asset(listed: Listed) -> dg.AssetsDefinition:
    """The base rows; a second run over the same files changes nothing."""
    table = listed.table

    def load_files(run: Run) -> Done:
        folder = Path(run.config.folder) if run.config.folder else None
        done = load.load_base(run.table_context, folder)
        figures = ("files", "rows", "duplicate", "inserted", "updated")
        facts = {"folder": dg.MetadataValue.path(str(done.folder)), **{name: getattr(done, name) for name in figures}}
        return Done({table.base_name: facts})

    return step_of(listed, load_files, [specs.base_spec(listed)], config=BaseConfig)


def merged_asset(listed: Listed) -> dg.AssetsDefinition:
    """The merged table and its rejected records: written by the same batches, so always together."""
    table = listed.table

    def merge(run: Run) -> Done:
        _, plan = look_ahead(run.settings, table, PATIENCE)
        request = run.config.request(plan)
        log = run.context.log
        changes = _told(run, table.name, table.rejected_name)
        done = refresh.caught_up(
            run.table_context,
            lambda: batches.merge_all(run.table_context, request, lambda outcome: log.info(str(outcome))),
            lambda derived: log.info(f"Before that, brought up to date: {derived.facts}"),
        )
        ledger = merged_ledger(run.settings, table)
        facts = {**results.accounting(done, ledger.totals), **results.reading(done, plan), **changes}
        rejected = {"rejected": facts["rejected"], **results.rejected(run.settings, table, ledger)}
        found = batches_accounted(ledger, [outcome.entry for outcome in done])
        return Done({table.name: facts, table.rejected_name: rejected}, [found])

    doc = (
        "Every commit accounts for its records, no key it touched stands twice, and it goes on where the one before it"
    )
    doc += (
        " ended. It fails until what does not add up is undone by a RESTORE, or accepted: lakehouse accept-difference."
    )
    check = dg.AssetCheckSpec("batches_accounted", asset=listed.merged, description=doc)
    return step_of(listed, merge, [specs.merged_spec(listed), specs.rejected_spec(listed)], [check], MergeConfig)


def changes_asset(listed: Listed) -> dg.AssetsDefinition:
    """The change feed, brought up to the merged table."""
    table = listed.table

    def update(run: Run) -> Done:
        changes = _told(run, table.changes_name)
        done = refresh.refresh_changes(run.table_context)
        return Done({done.name: {**_facts(done), **changes}}, [changes_kept(reconciled=done.rebuilt)])

    doc = "What the run wrote are changes that the table recorded, and no net difference found afterwards."
    check = dg.AssetCheckSpec("changes_kept", asset=listed.key(table.changes_name), description=doc)
    return step_of(listed, update, [specs.changes_spec(listed)], [check])


def rollup_asset(listed: Listed, rollup: Rollup) -> dg.AssetsDefinition:
    """An aggregate, brought up to the merged table."""

    def update(run: Run) -> Done:
        changes = _told(run, rollup.name)
        done = refresh.refresh_rollup(run.table_context, rollup)
        found = verify.verify_touched(run.table_context, rollup, done)
        return Done({done.name: {**_facts(done), **changes}}, [found])

    doc = f"{rollup.name} stored the groups that the run touched as it computed them from {listed.table.name}."
    check = dg.AssetCheckSpec("touched_groups_stored", asset=listed.key(rollup.name), description=doc)
    return step_of(listed, update, [specs.rollup_spec(listed, rollup)], [check])


def _told(run: Run, *names: str) -> results.Facts:
    """What the step changes in these tables since they are declared otherwise; it is logged before it is done."""
    changes = [each for each in told_changes(run.settings, run.table) if each.table in names]
    for each in changes:
        run.context.log.info(str(each))
    return results.declared(changes)


def _facts(done: Derived) -> dict[str, Any]:
    return {name: fact for name, fact in done.facts.items() if name not in ("name", "version")}
