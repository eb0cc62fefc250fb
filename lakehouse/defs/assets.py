"""The assets of a declared table: one function for each kind of asset."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import dagster as dg

from lakehouse.batch import ingest, load
from lakehouse.declaration import Reference, Rollup, StreamTable
from lakehouse.defs import results, specs
from lakehouse.defs.config import BaseConfig, MergeConfig
from lakehouse.defs.maintenance import maintenance_asset
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.delta.engine import merged_ledger
from lakehouse.derive import refresh
from lakehouse.derive.changes import Derived

Result = dg.MaterializeResult[Any]
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
    spec = specs.reference_spec(table, reference)

    @dg.multi_asset(name=reference.name, specs=[spec], pool=table.name)
    def load_file(context: dg.AssetExecutionContext, lakehouse: LakehouseResource) -> Result:
        started = perf_counter()
        with explained():
            done = load.load_reference(
                lakehouse.spark_session, lakehouse.settings, table, reference, context.run.run_id
            )
        facts = {name: getattr(done, name) for name in ("rows", "inserted", "updated", "deleted")}
        return _materialized(spec, lakehouse, facts, started)

    return load_file


def base_asset(table: StreamTable) -> dg.AssetsDefinition:
    """The base rows; a second run over the same files changes nothing."""
    spec = specs.base_spec(table)

    @dg.multi_asset(name=table.base_name, specs=[spec], pool=table.name)
    def load_files(context: dg.AssetExecutionContext, config: BaseConfig, lakehouse: LakehouseResource) -> Result:
        started = perf_counter()
        folder = Path(config.folder) if config.folder else None
        with explained():
            done = load.load_base(lakehouse.spark_session, lakehouse.settings, table, folder, context.run.run_id)
        counts = ("files", "rows", "duplicate", "inserted", "updated")
        facts = {"folder": dg.MetadataValue.path(str(done.folder)), **{name: getattr(done, name) for name in counts}}
        return _materialized(spec, lakehouse, facts, started)

    return load_files


def merged_asset(table: StreamTable) -> dg.AssetsDefinition:
    """The merged table and its rejected records: written by the same batches, so always together."""
    merged, rejected = specs.merged_spec(table), specs.rejected_spec(table)

    @dg.multi_asset(name=table.name, specs=[merged, rejected], pool=table.name)
    def merge(context: dg.AssetExecutionContext, config: MergeConfig, lakehouse: LakehouseResource) -> Iterator[Result]:
        started = perf_counter()
        with explained():
            plan = ingest.plan_next(lakehouse.settings, table)
            request = config.request(context.run.run_id, plan)
            done = ingest.merge_all(
                lakehouse.spark_session,
                lakehouse.settings,
                table,
                request,
                lambda outcome: context.log.info(results.one_line(outcome)),
            )
            totals = merged_ledger(lakehouse.settings, table).totals
        facts = {**results.accounting(done, totals), **results.reading(done, plan)}
        yield _materialized(merged, lakehouse, facts, started)
        yield _materialized(rejected, lakehouse, {"rejected": facts["rejected"]}, started)

    return merge


def changes_asset(table: StreamTable) -> dg.AssetsDefinition:
    """The change feed, brought up to the merged table."""
    spec = specs.changes_spec(table)

    @dg.multi_asset(name=table.changes_name, specs=[spec], pool=table.name)
    def update(context: dg.AssetExecutionContext, lakehouse: LakehouseResource) -> Result:
        started = perf_counter()
        with explained():
            done = refresh.refresh_changes(lakehouse.spark_session, lakehouse.settings, table, context.run.run_id)
        return _derived(spec, lakehouse, done, started)

    return update


def rollup_asset(table: StreamTable, rollup: Rollup) -> dg.AssetsDefinition:
    """An aggregate, brought up to the merged table."""
    spec = specs.rollup_spec(table, rollup)

    @dg.multi_asset(name=rollup.name, specs=[spec], pool=table.name)
    def update(context: dg.AssetExecutionContext, lakehouse: LakehouseResource) -> Result:
        started = perf_counter()
        with explained():
            done = refresh.refresh_rollup(
                lakehouse.spark_session, lakehouse.settings, table, rollup, context.run.run_id
            )
        return _derived(spec, lakehouse, done, started)

    return update


def _derived(spec: dg.AssetSpec, lakehouse: LakehouseResource, done: Derived, started: float) -> Result:
    facts = {"source_version": done.source_version, "changed": done.changed, "rebuilt": done.rebuilt}
    return _materialized(spec, lakehouse, facts, started)


def _materialized(spec: dg.AssetSpec, lakehouse: LakehouseResource, facts: results.Facts, started: float) -> Result:
    uri = lakehouse.settings.table_uri(spec.key.path[-1])
    return results.materialized(spec, uri, {**facts, "seconds": round(perf_counter() - started, 2)})
