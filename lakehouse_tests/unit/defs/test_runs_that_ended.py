"""A run whose process is dead has ended, even if a newer process has the same id."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import (
    DagsterEvent,
    EngineEventData,
    JobFailureData,
    RunFailureReason,
    StepMaterializationData,
)
from dagster._core.remote_origin import RemoteInstigatorOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
)
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.test_utils import create_run_for_test

from lakehouse.defs import ended_runs, runs
from lakehouse.defs.runs import schedule_location
from lakehouse.local.dagster_home import migrate_dagster_storage, note_stop, start_dagster_storage
from lakehouse.settings import Settings
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
    monkeypatch.setattr(ended_runs, "_CLOCK_CORRECTION", ended_runs._CLOCK_CORRECTION - run_age)
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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home whose Dagster storage exists."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    settings = Settings(home=tmp_path, _env_file=None)
    migrate_dagster_storage(settings)
    return settings


def create_stopped_run(instance: dg.DagsterInstance, status: str, address: str) -> dg.DagsterRun:
    """A run that a code server at this address started, or was to start; INTERRUPTED if a signal made it fail."""
    run = create_run_for_test(
        instance,
        "merge",
        status=dg.DagsterRunStatus["STARTED" if status == "INTERRUPTED" else status],
        asset_selection={KEY},
        tags={GRPC_INFO_TAG: json.dumps({"host": "localhost", "socket": address})},
        remote_job_origin=repository_of("ours").get_job_origin("merge"),
    )
    if status == "STARTED":
        instance.report_engine_event("Started process for run.", run, EngineEventData.in_process(NO_PROCESS))
    if status == "INTERRUPTED":
        interruption = JobFailureData(None, RunFailureReason.UNEXPECTED_TERMINATION)
        instance.report_run_failed(run, "A signal.", interruption)
    return run


STATUSES = ("NOT_STARTED", "STARTING", "STARTED", "CANCELING", "INTERRUPTED", "QUEUED", "FAILURE")
UNCHANGED = "NOT_STARTED STARTING STARTED CANCELING FAILURE QUEUED FAILURE"


@pytest.mark.parametrize(
    ("seconds_after_stop", "has_server", "expected_statuses"),
    [
        (1, False, "CANCELED CANCELED CANCELED CANCELED CANCELED QUEUED FAILURE"),
        (1, True, UNCHANGED.replace("NOT_STARTED", "CANCELED")),
        (3600, False, UNCHANGED),
        (-3600, False, "CANCELED CANCELED CANCELED CANCELED FAILURE QUEUED FAILURE"),
    ],
)
def test_the_start_after_a_stop_cancels_the_runs_that_ended_with_it(
    home: Settings, seconds_after_stop: float, has_server: bool, expected_statuses: str
) -> None:
    """Otherwise Dagster's monitor reports them as failed, sensors pause, and alerts are sent."""
    address = str(home.home / "server")
    with (
        dg.DagsterInstance.from_config(str(home.home / "dagster")) as instance,
        socket.socket(socket.AF_UNIX) as server,
    ):
        server.bind(address)
        if has_server:
            server.listen()
        created_runs = [create_stopped_run(instance, status, address) for status in STATUSES]
        note_stop(home)
        stopped_at = time.time() - seconds_after_stop
        os.utime(home.home / "dagster" / "stopped", (stopped_at, stopped_at))
        for _ in range(2):
            start_dagster_storage(home)
            new_statuses = [instance.get_run_by_id(run.run_id).status.value for run in created_runs]
            assert " ".join(new_statuses) == expected_statuses


def test_without_a_stop_no_run_is_canceled(home: Settings) -> None:
    """A power cut, or a machine without memory, is a failure."""
    with dg.DagsterInstance.from_config(str(home.home / "dagster")) as instance:
        created_runs = [create_stopped_run(instance, status, str(home.home / "server")) for status in STATUSES]
        start_dagster_storage(home)
        assert " ".join(instance.get_run_by_id(run.run_id).status.value for run in created_runs) == UNCHANGED


@pytest.mark.parametrize("tag", ["", "[]", '{"host": "localhost", "port": 4000}', '{"socket": 7}'])
def test_a_run_of_a_server_elsewhere_is_not_canceled(home: Settings, tag: str) -> None:
    with dg.DagsterInstance.from_config(str(home.home / "dagster")) as instance:
        starting = dg.DagsterRunStatus.STARTING
        run = create_run_for_test(instance, "merge", status=starting, tags={GRPC_INFO_TAG: tag})
        note_stop(home)
        start_dagster_storage(home)
        assert instance.get_run_by_id(run.run_id).status is starting


def test_what_is_left_of_a_stopped_merge_is_requested_at_once(home: Settings) -> None:
    """It had merged, and not updated the feed."""
    keys = [dg.AssetKey(name) for name in ("t", "t_rejected", "t_changes")]
    with dg.DagsterInstance.from_config(str(home.home / "dagster")) as instance:
        run = create_stopped_run(instance, "STARTED", str(home.home / "server"))
        instance.report_dagster_event(DagsterEvent("PIPELINE_START", "merge"), run.run_id)
        for key in keys[:2]:
            instance.report_dagster_event(
                DagsterEvent(
                    "ASSET_MATERIALIZATION",
                    "merge",
                    event_specific_data=StepMaterializationData(dg.AssetMaterialization(key), []),
                ),
                run.run_id,
            )
        assert runs.keys_behind(instance, "merge", keys, datetime.now(UTC)) == []
        note_stop(home)
        start_dagster_storage(home)
        later = datetime.now(UTC) + timedelta(seconds=5)
        assert runs.keys_behind(instance, "merge", keys, later) == keys[2:]
        assert runs.reason_to_wait(instance, "merge", keys[0], later) is None


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
