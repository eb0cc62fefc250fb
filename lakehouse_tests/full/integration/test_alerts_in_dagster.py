"""The sensor of alerts in Dagster's own processes: the command that turns it on, and the runs that it counts."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg

from lakehouse.defs.build import build_defs
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.code_locations import repository_of
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.receivers import receiving

BIN = Path(sys.executable).parent


def run_dagster(home: Path, *arguments: str, **variables: str) -> str:
    """The output of a command of Dagster, with an instance in a folder."""
    environment = {**os.environ, "DAGSTER_HOME": str(home), "LAKEHOUSE_HOME": str(home / "home"), **variables}
    result = subprocess.run(
        [BIN / "dagster", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_command_of_the_page_turns_the_sensor_on(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    (command,) = re.findall(r'^ *DAGSTER_HOME="\S+" dagster (sensor start orders_alerts)$', page, re.MULTILINE)
    assert "Sensor: temperatures_alerts [STOPPED]" in run_dagster(tmp_path, "sensor", "list")
    run_dagster(tmp_path, *command.replace("orders", "temperatures").split())
    assert "Sensor: temperatures_alerts [RUNNING]" in run_dagster(tmp_path, "sensor", "list")


def test_a_code_location_sends_the_failed_runs_of_its_own_and_no_others(tmp_path: Path) -> None:
    """The file ``workspace.yaml`` names the code location of the sensor ``lakehouse``."""
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        for job, location in (("merge_temperatures", "lakehouse"), ("verify_temperatures", "another")):
            record_failure(instance, job, location)
    with receiving() as receiver:
        command = ("sensor", "preview", "temperatures_alerts", "-w", "workspace.yaml")
        output = run_dagster(tmp_path, *command, LAKEHOUSE_ALERT_URL=receiver.url)
        assert "Alerts sent: 1." in output
        assert receiver.states() == [("failed", "merge_temperatures")]


def record_failure(instance: dg.DagsterInstance, job: str, location: str) -> None:
    """Record a failed run as Dagster does for a run that a person launches."""
    options: dict[str, Any] = {"remote_job_origin": repository_of(location).get_job_origin(job), "run_id": str(uuid4())}
    run = instance.create_run_for_job(build_defs([temperatures]).resolve_job_def(job), **options)
    instance.report_run_failed(run, "It ended.")
