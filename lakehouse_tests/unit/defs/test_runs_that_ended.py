"""A run whose process is dead has ended, even if a newer process has the same id."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData, JobFailureData, RunFailureReason
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
from lakehouse.local.dagster_home import migrate_dagster_storage
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


@pytest.mark.parametrize(
    ("status", "has_server", "has_process", "expected_status"),
    [
        ("STARTING", True, False, "STARTING"),
        ("STARTING", False, False, "CANCELED"),
        ("STARTED", True, False, "FAILURE"),
        ("STARTED", False, False, "CANCELED"),
        ("STARTED", False, True, "STARTED"),
        ("CANCELING", True, False, "CANCELING"),
        ("CANCELING", False, False, "CANCELED"),
        ("QUEUED", False, False, "QUEUED"),
        ("NOT_STARTED", False, False, "NOT_STARTED"),
    ],
)
def test_a_run_is_canceled_if_its_server_is_gone_too_and_failed_if_only_its_process_is(
    tmp_path: Path, process: int, status: str, *, has_server: bool, has_process: bool, expected_status: str
) -> None:
    address = str(tmp_path / "server")
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance, socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        if has_server:
            server.listen()
        tags = {GRPC_INFO_TAG: json.dumps({"host": "localhost", "socket": address})}
        run = create_run_for_test(
            instance,
            "merge",
            status=dg.DagsterRunStatus[status],
            asset_selection={KEY},
            tags=tags,
            remote_job_origin=repository_of("ours").get_job_origin("merge"),
        )
        if status == "STARTED":
            pid = process if has_process else NO_PROCESS
            instance.report_engine_event("Started process for run.", run, EngineEventData.in_process(pid))
        is_ended = expected_status in ("CANCELED", "FAILURE")
        assert (runs.unfinished_run(instance, KEY, None) is None) == is_ended
        assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus[expected_status]


@pytest.mark.parametrize("tag", ["", "[]", '{"host": "localhost", "port": 4000}'])
def test_a_server_that_cannot_be_reached_from_here_is_not_judged(tmp_path: Path, tag: str) -> None:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        starting = dg.DagsterRunStatus.STARTING
        create_run_for_test(instance, "merge", status=starting, asset_selection={KEY}, tags={GRPC_INFO_TAG: tag})
        assert runs.unfinished_run(instance, KEY, None) is not None


@pytest.mark.parametrize("has_server", [True, False])
def test_the_start_of_dagster_cancels_the_runs_that_ended_with_the_dagster_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_server: bool
) -> None:
    """Otherwise its monitor reports them as failed after 90 seconds, and its sensors wait for them."""
    address = str(tmp_path / "server")
    tags = {GRPC_INFO_TAG: json.dumps({"host": "localhost", "socket": address})}
    origin = repository_of("ours").get_job_origin("merge")
    interruption = JobFailureData(None, RunFailureReason.UNEXPECTED_TERMINATION)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    settings = Settings(home=tmp_path, _env_file=None)
    migrate_dagster_storage(settings)
    with (
        dg.DagsterInstance.from_config(str(tmp_path / "dagster")) as instance,
        socket.socket(socket.AF_UNIX) as server,
    ):
        server.bind(address)
        if has_server:
            server.listen()
        statuses = ("STARTING", "NOT_STARTED", "QUEUED", "FAILURE", "STARTED")
        created_runs = [
            create_run_for_test(
                instance, "merge", status=dg.DagsterRunStatus[status], tags=tags, remote_job_origin=origin
            )
            for status in statuses
        ]
        instance.report_run_failed(created_runs[-1], "A signal.", interruption)
        starting, interrupted = ("STARTING", "FAILURE") if has_server else ("CANCELED", "CANCELED")
        for _ in range(2):
            migrate_dagster_storage(settings)
            new_statuses = [instance.get_run_by_id(run.run_id).status.value for run in created_runs]
            assert new_statuses == [starting, "CANCELED", "QUEUED", "FAILURE", interrupted]


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
