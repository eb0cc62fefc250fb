"""The step of an asset: begin, do the work, explain what fails, report what was done. The same for all of them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs import results
from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.errors import AccountingError
from lakehouse.ledger.audit import Finding
from lakehouse.settings import Settings
from lakehouse.storage.lock_holder import name_work
from lakehouse.storage.table_context import TableContext


class NoConfig(dg.Config):
    """Nothing to tell the step."""


@dataclass(frozen=True)
class Run:
    """What a step works with."""

    context: dg.AssetExecutionContext
    config: Any
    lakehouse: LakehouseResource
    table: StreamTable

    @property
    def table_context(self) -> TableContext:
        """The session of the run, which starts now, and whose commits say which run made them."""
        return self.lakehouse.table_context(self.table, self.context.run.run_id)

    @property
    def settings(self) -> Settings:
        """The settings of this environment."""
        return self.lakehouse.settings


@dataclass(frozen=True)
class Done:
    """What a step did: figures for each of its assets, by name, and what the checks found that run with it."""

    facts: Mapping[str, results.Facts]
    findings: Sequence[Finding] = ()


def step_of(
    listed: Listed,
    work: Callable[[Run], Done],
    specs: Sequence[dg.AssetSpec],
    checks: Sequence[dg.AssetCheckSpec] = (),
    config: type[dg.Config] = NoConfig,
) -> dg.AssetsDefinition:
    """Make the step that writes these assets, one at a time in the pool of the table.

    An error a person can act on becomes the text of the failure; where it is that a commit does not account for its
    records, the checks of the step fail with it. Each asset is reported at the version it has then.
    """

    def step(context: dg.AssetExecutionContext, config: Any, lakehouse: LakehouseResource) -> Iterator[Any]:
        started = perf_counter()
        name_work(f"run {context.run.run_id[:8]} of Dagster")
        with explained():
            try:
                done = work(Run(context, config, lakehouse, listed.table))
            except AccountingError as error:
                failed = [Finding(check.name, passed=False, detail=str(error)) for check in checks]
                yield from (results.checked(found, specs[0].key) for found in failed)
                raise
            seconds = {"seconds": round(perf_counter() - started, 2)}
            for spec in specs:
                yield results.materialized(spec, lakehouse.settings, {**done.facts[spec.key.path[-1]], **seconds})
        yield from (results.checked(found, specs[0].key) for found in done.findings)

    step.__annotations__["config"] = config  # Dagster reads what may be configured from there
    name = re.sub(r"[^A-Za-z0-9_]", "_", "__".join(specs[0].key.path))
    return dg.multi_asset(name=name, specs=specs, check_specs=checks, pool=listed.table.name)(step)
