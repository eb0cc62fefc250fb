"""A run whose process is dead has ended, even if a newer process has the same id."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.remote_origin import RemoteInstigatorOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
)
from dagster._core.test_utils import create_run_for_test

from lakehouse.defs import runs
from lakehouse.defs.runs import schedule_location
from lakehouse_tests.helpers.code_locations import repository_of

pytestmark = pytest.mark.invariant("12.2", "12.4")

KEY = dg.AssetKey("temperatures")
NO_PROCESS = 2**22 + 1  # beyond the greatest process id of Linux


@pytest.fixture
def process() -> Iterator[int]:
    """The id of a process that has just started."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child.pid
        child.communicate(b"\n")


@pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="this system does not report when a process started")
@pytest.mark.parametrize(("run_age", "is_unfinished"), [(0.0, True), (3600.0, False)])
def test_a_process_that_started_after_the_run_is_not_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: int, run_age: float, is_unfinished: bool
) -> None:
    # The same effect as a run that started this many seconds before the process.
    monkeypatch.setattr(runs, "_CLOCK_CORRECTION", runs._CLOCK_CORRECTION - run_age)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = create_run_for_test(instance, "merge", status=dg.DagsterRunStatus.STARTED, asset_selection={KEY})
        instance.report_engine_event("Started process for run.", run, EngineEventData.in_process(process))
        assert (runs.unfinished_run(instance, KEY, None) is not None) == is_unfinished
        expected_status = dg.DagsterRunStatus.STARTED if is_unfinished else dg.DagsterRunStatus.FAILURE
        assert instance.get_run_by_id(run.run_id).status is expected_status


@pytest.mark.parametrize(("location", "is_judged"), [("ours", True), ("another", False)])
def test_the_process_of_another_code_location_may_be_in_another_container(
    tmp_path: Path, location: str, is_judged: bool
) -> None:
    """Its process id means nothing here: the run is not ended, and keeps its slots in pools."""
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = create_run_for_test(
            instance,
            "maintain",
            status=dg.DagsterRunStatus.STARTED,
            asset_selection={KEY},
            remote_job_origin=repository_of(location).get_job_origin("maintain"),
        )
        instance.report_engine_event("Started process for run.", run, EngineEventData.in_process(NO_PROCESS))
        label = repository_of("ours").get_label()
        assert (runs.unfinished_run(instance, KEY, label) is None) == is_judged
        assert (runs.unfinished_run_of_job(instance, "maintain", label) is None) == is_judged
        expected_status = dg.DagsterRunStatus.FAILURE if is_judged else dg.DagsterRunStatus.STARTED
        assert instance.get_run_by_id(run.run_id).status is expected_status


def test_a_schedule_knows_its_code_location_unless_several_have_its_name(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for location, expected_location in (("ours", repository_of("ours").get_label()), ("another", "")):
            origin = RemoteInstigatorOrigin(repository_of(location), "nightly")
            state = InstigatorState(
                origin, InstigatorType.SCHEDULE, InstigatorStatus.RUNNING, ScheduleInstigatorData("@daily")
            )
            instance.add_instigator_state(state)
            assert schedule_location(instance, "nightly") == expected_location
        assert schedule_location(instance, "hourly") is None
