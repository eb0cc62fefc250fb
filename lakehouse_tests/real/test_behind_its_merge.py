"""A run that failed after its merge is requested again, though no record waits: feed and rollups are behind."""

from datetime import timedelta

import dagster as dg
import pytest

from lakehouse.defs import runs
from lakehouse_tests.helpers.sensors import World

TABLES = ("temperatures", "temperatures_rejected", "temperatures_changes", "temperatures_by_location")
STARTED, SUCCESS = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS


def record_failed_run(world: World) -> dg.DagsterRun:
    """Record a run that started and failed, as Dagster does."""
    run = world.record_run(STARTED)
    world.instance.report_run_failed(run)
    return run


def record_materializations(world: World, *names: str) -> None:
    for name in names:
        world.instance.report_runless_asset_event(dg.AssetMaterialization(name))


@pytest.mark.invariant("12.6")
def test_a_failed_run_is_requested_again_after_the_pause(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    record_materializations(world, "temperatures")
    failed_run = record_failed_run(world)
    result = world.tick()
    assert not result.run_requests
    assert f"Run {failed_run.run_id[:8]} of merge_temperatures failed" in result.skip_message
    monkeypatch.setattr(runs, "_LONGEST", timedelta(0))
    (request,) = world.tick().run_requests
    assert dg.validate_run_config(world.defs.resolve_job_def("merge_temperatures"), request.run_config)


@pytest.mark.invariant("12.6")
def test_a_table_not_written_since_the_failure_is_still_behind(world: World) -> None:
    record_failed_run(world)
    record_materializations(world, *TABLES[:2])
    (request,) = world.tick().run_requests
    assert request.asset_selection is None, "it is unknown when the failed run started"


@pytest.mark.invariant("12.6")
def test_a_run_that_failed_behind_its_merge_is_requested_for_the_derived_tables_alone(world: World) -> None:
    run = world.record_run(dg.DagsterRunStatus.NOT_STARTED)
    start = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job_name="merge_temperatures")
    world.instance.report_dagster_event(start, run.run_id)
    record_materializations(world, *TABLES[:2])
    world.instance.report_run_failed(run)
    record_materializations(world, *TABLES[:1])
    (request,) = world.tick().run_requests
    assert request.asset_selection == [dg.AssetKey(name) for name in TABLES[2:]]
    world.record_run(STARTED, "merge_temperatures", *TABLES[2:])
    assert not world.tick().run_requests


@pytest.mark.invariant("12.5", "12.6")
@pytest.mark.parametrize("writer", ["a run of the job", "runs of anybody"])
def test_a_success_ends_the_retries(world: World, writer: str) -> None:
    record_failed_run(world)
    if writer == "a run of the job":
        world.record_run(SUCCESS)
    else:
        record_materializations(world, *TABLES)
    assert "Nothing to merge" in world.tick().skip_message
