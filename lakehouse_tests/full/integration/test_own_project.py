"""From the wheel, in an environment of its own, to tables of a project of one's own: the first hour of a user."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_tests.helpers.places import ROOT

UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment that holds the wheel, what it needs and pytest, and nothing of this repository."""
    folder = tmp_path_factory.mktemp("wheel")
    call(ROOT, UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    call(folder, UV, "venv", "--quiet", "--python", sys.executable, "venv")
    (wheel,) = folder.glob("*.whl")
    pinned = ROOT / "requirements.txt"
    install = ("pip", "install", "--quiet", "--python", folder / "venv", "--constraint", pinned, wheel, "pytest")
    call(folder, UV, *install)
    return folder / "venv" / "bin"


def call(folder: Path, *command: str | Path) -> str:
    """Run a command as a user would, with no setting of this machine but where its jars are."""
    kept = {name: value for name, value in os.environ.items() if name == "LAKEHOUSE_JARS" or not _is_ours(name)}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def _is_ours(name: str) -> bool:
    return name.startswith(("LAKEHOUSE_", "PYTHON", "VIRTUAL_ENV", "DAGSTER_"))


@pytest.mark.timeout(600)
def test_a_project_from_the_wheel_runs_as_it_is(installed: Path, tmp_path: Path) -> None:
    call(tmp_path, installed / "lakehouse", "init", "my-lake")
    project = tmp_path / "my-lake"
    assert "2 passed" in call(project, installed / "python", "-m", "pytest")
    told = " ".join(call(project, installed / "lakehouse", "demo").split())
    assert re.search(r"1\. New records .* readings: 96 rows, 48 at each of 2 groups 96 rows inserted", told), told
    assert re.search(r"2\. Corrections .* readings: 96 rows, .* 6 rows changed", told), told
    assert "read = rejected + duplicate + inserted + updated + stale" in told
    assert "no row changed" in told, "a replay changes nothing"
    assert "96 rows" in told
    rows = call(project, installed / "lakehouse", "query", "--json", "SELECT count(*) AS n FROM readings_changes")
    assert '"n": 102' in rows
    assert "readings_by_sensor" in call(project, installed / "dagster", "asset", "list", "-m", "definitions")
