"""The step of an asset: start, do the work, explain errors, report the results. All assets share this code."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs import results
from lakehouse.defs.catalog_entries import CatalogEntry, step_name
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.errors import AccountingError
from lakehouse.ledger.audit import Finding
from lakehouse.settings import Settings
from lakehouse.storage.lock_holder import name_work
from lakehouse.storage.table_context import TableContext


class NoConfig(dg.Config):
    """The step has no configuration."""


@dataclass(frozen=True)
class StepInput:
    """What a step works with: Dagster's context, its configuration, the resource and the table."""

    context: dg.AssetExecutionContext
    config: Any
    lakehouse: LakehouseResource
    table: StreamTable

    @property
    def table_context(self) -> TableContext:
        """The context of the table, whose commits name the run. Starts the Spark session of the run."""
        return self.lakehouse.table_context(self.table, self.context.run.run_id)

    @property
    def settings(self) -> Settings:
        """The settings of this environment."""
        return self.lakehouse.settings


@dataclass(frozen=True)
class StepResult:
    """What a step did: the metadata of each asset by name, and the findings of the checks that run with the step."""

    metadata: Mapping[str, results.Facts]
    findings: Sequence[Finding] = ()


def name_run(run_id: str) -> None:
    """Record this run as the holder of the locks that it takes, for those who wait for them."""
    name_work(f"run {run_id[:8]} of Dagster")


def build_step(
    entry: CatalogEntry,
    work: Callable[[StepInput], StepResult],
    specs: Sequence[dg.AssetSpec],
    checks: Sequence[dg.AssetCheckSpec] = (),
    config: type[dg.Config] = NoConfig,
) -> dg.AssetsDefinition:
    """Build the step that writes these assets. The pool of the table runs one step at a time.

    An error that a person can act on becomes the text of the failure. If a commit does not account for its records, the
    checks of the step fail with it. The step reports each asset at its version after the work. A run may select some of
    the assets: the step does all its work and reports all of them, because it writes them together. It reports no asset
    for which the result has no metadata. If the assets have
    partitions, one run works on all chosen ones.
    """

    def step(context: dg.AssetExecutionContext, config: Any, lakehouse: LakehouseResource) -> Iterator[Any]:
        started_at = perf_counter()
        name_run(context.run.run_id)
        with explained():
            try:
                result = work(StepInput(context, config, lakehouse, entry.table))
            except AccountingError as error:
                failures = [Finding(check.name, passed=False, detail=str(error)) for check in checks]
                yield from _report_findings(context, failures, specs[0].key)
                raise
            duration = {"seconds": round(perf_counter() - started_at, 2)}
            for spec in (spec for spec in specs if spec.key.path[-1] in result.metadata):
                metadata = {**result.metadata[spec.key.path[-1]], **duration}
                materialized = results.materialize_result(spec, lakehouse.settings, metadata)
                if spec.key in context.selected_asset_keys:
                    yield materialized
                else:
                    context.log_event(results.as_event(materialized))
        yield from _report_findings(context, result.findings, specs[0].key)

    step.__annotations__["config"] = config  # Dagster reads the type of the configuration from the annotation
    name = step_name(specs[0].key)
    policy = dg.BackfillPolicy.single_run() if specs[0].partitions_def else None
    options: dict[str, Any] = {"pool": entry.table.name, "can_subset": len(specs) > 1, "backfill_policy": policy}
    return dg.multi_asset(name=name, specs=specs, check_specs=checks, **options)(step)


def _report_findings(
    context: dg.AssetExecutionContext, findings: Iterable[Finding], asset: dg.AssetKey
) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of the selected checks; report the others as events, so that no finding is lost."""
    for finding in findings:
        if dg.AssetCheckKey(asset, finding.check) in context.selected_asset_check_keys:
            yield results.check_result(finding, asset)
        else:
            context.instance.report_runless_asset_event(results.check_evaluation(finding, asset))
