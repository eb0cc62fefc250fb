"""Two Dagster runs that write one table never overlap, even if both start at once on a new instance."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.local.dagster_home import prepare_dagster_home
from lakehouse.settings import Settings

pytestmark = pytest.mark.invariant("11.1")

_STEP_EVENTS = dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_FAILURE


@pytest.fixture
def silent_broker():
    """Accept connections and never answer, so that a merge holds its slot without a JVM."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_two_runs_of_a_table_launched_at_once_do_not_overlap(silent_broker, attack, tmp_path: Path, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    home = prepare_dagster_home(Settings(home=tmp_path, _env_file=None))
    environment = {**os.environ, "DAGSTER_HOME": str(home), "LAKEHOUSE_HOME": str(tmp_path)}
    environment["LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"] = silent_broker
    command = [sys.executable, "-m", "dagster", "job", "execute", "-m", "lakehouse.definitions"]
    command += ["-j", "merge_temperatures"]
    with attack("One writer at a time", "two runs of Dagster launched at once"):
        with dg.DagsterInstance.from_config(str(home)) as instance:
            processes = [
                subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for _ in range(2)
            ]
            for process in processes:
                process.wait(120)
            spans = sorted(_span_of_merge(instance, run.run_id) for run in instance.get_runs())
        (_, first_end), (second_start, _) = spans
        assert first_end <= second_start, json.dumps(spans)


def _span_of_merge(instance: dg.DagsterInstance, run_id: str) -> tuple[float, float]:
    """The start and the end of the step that merges."""
    events = [
        entry for entry in instance.all_logs(run_id, of_type=set(_STEP_EVENTS)) if entry.step_key == "temperatures"
    ]
    start, end = (entry.timestamp for entry in events)
    assert end - start > 1, "it ended before another could overlap"
    return start, end
