"""A step that writes several assets reports all of them, whichever of them a run selects."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.specs import table_specs
from lakehouse.defs.steps import StepInput, StepResult, build_step
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.audit import Finding
from lakehouse.settings import Settings

ENTRY = CatalogEntry(temperatures)
SPECS = table_specs(ENTRY)[:2]
CHECK = dg.AssetCheckKey(ENTRY.merged_key, "batches_accounted")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.mark.parametrize("selection", [None, ["temperatures"], ["temperatures_rejected"]])
def test_both_assets_and_the_check_are_reported_once(
    instance: dg.DagsterInstance, tmp_path: Path, selection: Sequence[str] | None
) -> None:
    def work(_: StepInput) -> StepResult:
        return StepResult({spec.key.path[-1]: {"n": 1} for spec in SPECS}, [Finding(CHECK.name, True, "All fit.")])

    step = build_step(ENTRY, work, SPECS, [dg.AssetCheckSpec(CHECK.name, asset=CHECK.asset_key)])
    resource = LakehouseResource.with_settings(Settings(home=tmp_path))
    assert dg.materialize([step], resources={"lakehouse": resource}, instance=instance, selection=selection).success
    for spec in SPECS:
        (record,) = instance.fetch_materializations(spec.key, limit=10).records
        event = record.asset_materialization
        assert event and event.metadata["n"].value == 1
        assert (event.tags or {})["dagster/data_version"] == "-1"
    history = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=10)
    assert [record.evaluation.passed for record in history if record.evaluation] == [True]
