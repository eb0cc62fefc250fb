"""A run that failed behind its merge is asked for again, though nothing waits: feed and rollups are behind."""

from datetime import timedelta

import dagster as dg
import pytest

from lakehouse.defs import retries
from lakehouse_tests.helpers.sensors import World

pytestmark = pytest.mark.invariant(12)

WRITTEN = ("temperatures", "temperatures_rejected", "temperatures_changes", "temperatures_by_location")
STARTED, SUCCESS = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS


def fail(world: World) -> dg.DagsterRun:
    """Let a run start and fail, as Dagster writes it."""
    run = world.record_run(STARTED)
    world.instance.report_run_failed(run)
    return run


def write(world: World, *names: str) -> None:
    for name in names:
        world.instance.report_runless_asset_event(dg.AssetMaterialization(name))


def test_it_is_asked_for_again_after_the_pause(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    write(world, "temperatures")
    failed = fail(world)
    result = world.tick()
    assert not result.run_requests
    assert f"Run {failed.run_id[:8]} of merge_temperatures failed" in result.skip_message
    monkeypatch.setattr(retries, "_LONGEST", timedelta(0))
    (request,) = world.tick().run_requests
    assert dg.validate_run_config(world.defs.resolve_job_def("merge_temperatures"), request.run_config)


def test_what_was_not_written_since_is_still_behind(world: World) -> None:
    fail(world)
    write(world, *WRITTEN[:2])
    assert len(world.tick().run_requests) == 1


@pytest.mark.parametrize("how", ["a run of the job", "runs of anybody"])
def test_a_success_ends_it(world: World, how: str) -> None:
    fail(world)
    if how == "a run of the job":
        world.record_run(SUCCESS)
    else:
        write(world, *WRITTEN)
    assert "Nothing to merge" in world.tick().skip_message
