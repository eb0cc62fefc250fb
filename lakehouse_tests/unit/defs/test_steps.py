"""A step that writes several assets reports all of them, and the lock of a table records which work holds it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest

from lakehouse.cli import main
from lakehouse.defs.assets import merged_asset
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.runs import unfinished_run
from lakehouse.defs.specs import CatalogEntry, table_specs
from lakehouse.defs.steps import StepInput, StepResult, build_step
from lakehouse.errors import TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.audit import Finding
from lakehouse.local.embedded import draw_port
from lakehouse.settings import Settings
from lakehouse.storage import lock_holder
from lakehouse_tests.helpers.code_locations import check_results, create_run

ENTRY = CatalogEntry(temperatures)
SPECS = table_specs(ENTRY)[:2]
CHECK = dg.AssetCheckKey(ENTRY.merged_key, "batches_accounted")


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
    assert [passed for passed, _ in check_results(instance, CHECK.asset_key, CHECK.name)] == [True]


def test_the_check_alone_is_evaluated_from_the_history_and_merges_nothing(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    entry = CatalogEntry(replace(temperatures, base=None))
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=f"127.0.0.1:{draw_port()}", _env_file=None)
    step = merged_asset(entry)
    job = dg.define_asset_job("check", selection=dg.AssetSelection.checks(CHECK))
    resources = {"lakehouse": LakehouseResource.with_settings(settings)}
    run = (
        dg.Definitions(assets=[step], jobs=[job], resources=resources)
        .resolve_job_def("check")
        .execute_in_process(instance=instance)
    )
    assert [check.check_name for check in run.get_asset_check_evaluations()] == ["batches_accounted"]
    assert not run.get_asset_materialization_events()


@pytest.mark.parametrize("selection", ["temperatures", "temperatures_rejected"])
def test_a_run_that_selects_one_of_the_assets_is_seen_as_a_writer_of_the_merged_table(
    instance: dg.DagsterInstance, selection: str
) -> None:
    status = dg.DagsterRunStatus.NOT_STARTED
    run = create_run(instance, build_defs([temperatures]), "merge_temperatures", selection, status=status)
    writer = unfinished_run(instance, ENTRY.merged_key, None)
    assert writer is not None
    assert writer.run_id == run.run_id
    assert unfinished_run(instance, ENTRY.key("temperatures_changes"), None) is None


@pytest.fixture(autouse=True)
def without_work_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_holder, "_work", {"what": ""})


def test_a_command_is_recorded_by_its_name() -> None:
    main.run(["topics", "nothing-of-this-name"])
    assert lock_holder._work == {"what": "lakehouse topics"}


def test_a_step_of_dagster_is_recorded_by_its_run() -> None:
    def fail(_: StepInput) -> StepResult:
        raise TableError("The step ends here", where="here", action="Continue.")

    entry = CatalogEntry(temperatures)
    step = build_step(entry, fail, table_specs(entry)[:1])
    result = dg.materialize([step], resources={"lakehouse": LakehouseResource()}, raise_on_error=False)
    assert not result.success
    assert lock_holder._work == {"what": f"run {result.run_id[:8]} of Dagster"}


@pytest.mark.parametrize(("record_user", "expected_run"), [(True, "7 by ada"), (False, "7")])
def test_the_user_of_a_run_is_recorded_only_if_that_is_set(record_user: bool, expected_run: str) -> None:
    lakehouse = SimpleNamespace(
        settings=Settings(record_user=record_user, _env_file=None), table_context=lambda _, run: run
    )
    context = SimpleNamespace(run=dg.DagsterRun("merge", run_id="7", tags={"user": "ada"}))
    step = StepInput(cast(Any, context), None, cast(Any, lakehouse), temperatures)
    assert cast(Any, step.table_context) == expected_run
