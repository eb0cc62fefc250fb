"""``make dist`` builds a wheel with everything that a user needs: the commands run from the unpacked wheel."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from lakehouse_tests.helpers.places import ROOT

UV = Path(sys.executable).with_name("uv")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CALL = "import lakehouse, sys; from lakehouse.cli.main import main; sys.stderr.write(lakehouse.__file__); main()"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([UV, "build", "--quiet", "--out-dir", folder, ROOT], check=True)
    (wheel_file,) = folder.glob("dagster_lakehouse-*.whl")
    with zipfile.ZipFile(wheel_file) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def call(wheel: Path, folder: Path, *arguments: str) -> str:
    """The output of a command of the unpacked wheel; no file of the repository is used."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
    process = subprocess.run(
        [sys.executable, "-c", CALL, *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(wheel), "LAKEHOUSE_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stderr.startswith(str(wheel))
    return process.stdout


@pytest.mark.timeout(120)
def test_commands_run_from_the_unpacked_wheel(wheel: Path, tmp_path: Path) -> None:
    assert "new-table" in call(wheel, tmp_path, "--help")
    assert call(wheel, tmp_path, "--version").strip() == f"lakehouse {PROJECT['version']}"
    call(wheel, tmp_path, "init", "my-lake")
    plan = call(wheel, tmp_path / "my-lake", "plan", "--quick")
    assert "readings_by_sensor" in plan


def test_the_wheel_contains_only_the_package_and_its_license(wheel: Path) -> None:
    assert sorted(path.name for path in wheel.iterdir()) == [
        f"dagster_lakehouse-{PROJECT['version']}.dist-info",
        "lakehouse",
    ]
    (info,) = wheel.glob("*.dist-info")
    assert (info / "licenses" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    metadata = (info / "METADATA").read_text()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Author: the lakehouse developers" in metadata
    assert (wheel / "lakehouse" / "py.typed").exists()
