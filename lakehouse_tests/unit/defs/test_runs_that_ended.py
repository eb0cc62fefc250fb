"""A run whose process is dead has ended, even if a newer process has the same id."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.test_utils import create_run_for_test

from lakehouse.defs import runs

pytestmark = pytest.mark.invariant("12.2", "12.4")

KEY = dg.AssetKey("temperatures")


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
        assert (runs.unfinished_run(instance, KEY) is not None) == is_unfinished
        expected_status = dg.DagsterRunStatus.STARTED if is_unfinished else dg.DagsterRunStatus.FAILURE
        assert instance.get_run_by_id(run.run_id).status is expected_status
