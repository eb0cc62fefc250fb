"""The step of an asset: start, do the work, explain errors, report the results. All assets share this code."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs import results
from lakehouse.defs.catalog_entries import CatalogEntry
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


def build_step(
    entry: CatalogEntry,
    work: Callable[[StepInput], StepResult],
    specs: Sequence[dg.AssetSpec],
    checks: Sequence[dg.AssetCheckSpec] = (),
    config: type[dg.Config] = NoConfig,
) -> dg.AssetsDefinition:
    """Build the step that writes these assets. The pool of the table runs one step at a time.

    An error that a person can act on becomes the text of the failure. If a commit does not account for its records, the
    checks of the step fail with it. The step reports each asset at its version after the work. If the assets have
    partitions, one run works on all chosen ones.
    """

    def step(context: dg.AssetExecutionContext, config: Any, lakehouse: LakehouseResource) -> Iterator[Any]:
        started_at = perf_counter()
        name_work(f"run {context.run.run_id[:8]} of Dagster")
        with explained():
            try:
                result = work(StepInput(context, config, lakehouse, entry.table))
            except AccountingError as error:
                failures = [Finding(check.name, passed=False, detail=str(error)) for check in checks]
                yield from (results.check_result(failure, specs[0].key) for failure in failures)
                raise
            duration = {"seconds": round(perf_counter() - started_at, 2)}
            for spec in specs:
                metadata = {**result.metadata[spec.key.path[-1]], **duration}
                yield results.materialize_result(spec, lakehouse.settings, metadata)
        yield from (results.check_result(finding, specs[0].key) for finding in result.findings)

    step.__annotations__["config"] = config  # Dagster reads the type of the configuration from the annotation
    name = re.sub(r"[^A-Za-z0-9_]", "_", "__".join(specs[0].key.path))
    policy = dg.BackfillPolicy.single_run() if specs[0].partitions_def else None
    return dg.multi_asset(name=name, specs=specs, check_specs=checks, pool=entry.table.name, backfill_policy=policy)(
        step
    )
