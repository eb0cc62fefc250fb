"""A run whose process is gone has ended, also where its number is another's by now."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.test_utils import create_run_for_test

from lakehouse.defs import runs

KEY = dg.AssetKey("temperatures")


@pytest.fixture
def process() -> Iterator[int]:
    """A process of this moment."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started.pid
        started.communicate(b"\n")


@pytest.mark.invariant(12)
@pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="this system does not tell when a process began")
@pytest.mark.parametrize(("earlier", "unfinished"), [(0.0, True), (3600.0, False)])
def test_a_process_that_began_after_its_run_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: int, earlier: float, unfinished: bool
) -> None:
    monkeypatch.setattr(runs, "_SET_RIGHT", runs._SET_RIGHT - earlier)  # as where the run began so much earlier
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = create_run_for_test(instance, "merge", status=dg.DagsterRunStatus.STARTED, asset_selection={KEY})
        instance.report_engine_event("Started process for run.", run, EngineEventData.in_process(process))
        assert (runs.unfinished_run(instance, KEY) is not None) == unfinished
        ended = dg.DagsterRunStatus.STARTED if unfinished else dg.DagsterRunStatus.FAILURE
        assert instance.get_run_by_id(run.run_id).status is ended
