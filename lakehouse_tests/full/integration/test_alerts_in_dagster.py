"""The command of the page about alerts turns the sensor on, in Dagster's own processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

from lakehouse_tests.helpers.places import ROOT

BIN = Path(sys.executable).parent


def test_the_command_of_the_page_turns_the_sensor_on(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    (command,) = re.findall(r'^ *DAGSTER_HOME="\S+" dagster (sensor start orders_alerts)$', page, re.MULTILINE)

    def run_dagster(*arguments: str) -> str:
        environment = {**os.environ, "DAGSTER_HOME": str(tmp_path), "LAKEHOUSE_HOME": str(tmp_path / "home")}
        result = subprocess.run(
            [BIN / "dagster", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    assert "Sensor: temperatures_alerts [STOPPED]" in run_dagster("sensor", "list")
    run_dagster(*command.replace("orders", "temperatures").split())
    assert "Sensor: temperatures_alerts [RUNNING]" in run_dagster("sensor", "list")
