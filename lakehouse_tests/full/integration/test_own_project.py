"""The first hour of a user: from the wheel in a new environment to the tables of a new project."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from lakehouse.local.embedded import draw_port
from lakehouse_tests.helpers.pages import START, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment
from lakehouse_tests.helpers.waiting import wait_until

UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command folder of an environment with the wheel, its requirements, pytest and ``dg``."""
    folder = tmp_path_factory.mktemp("wheel")
    call(ROOT, UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    call(folder, UV, "venv", "--quiet", "--python", sys.executable, "venv")
    (wheel,) = folder.glob("*.whl")
    constraints = ROOT / "requirements.txt"
    install = ("pip", "install", "--quiet", "--python", folder / "venv", "--constraint", constraints, wheel, "pytest")
    call(folder, UV, *install, "dagster-dg-cli")
    return folder / "venv" / "bin"


def call(folder: Path, *command: str | Path) -> str:
    """Run a command as a user would, without the settings of this machine except the folder of jars."""
    result = subprocess.run(
        list(map(str, command)), cwd=folder, env=user_environment(), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.mark.timeout(600)
def test_a_new_project_from_the_wheel_runs_unchanged(bin_folder: Path, tmp_path: Path) -> None:
    call(tmp_path, bin_folder / "lakehouse", "init", "my-lake")
    project = tmp_path / "my-lake"
    assert "2 passed" in call(project, bin_folder / "python", "-m", "pytest")
    assert_demo_shows_the_whole_path(bin_folder, project)
    page = (ROOT / "docs" / "how-to" / "dg-project.md").read_text()
    (export,) = re.findall(r"^export DAGSTER_HOME=.*$", page, re.MULTILINE)
    call(project, "bash", "-ec", f"{export}\n'{bin_folder / 'dg'}' launch --job maintain_readings")
    for command in ("dagster", "dg"):
        assert {"readings", "readings_by_sensor"} <= list_assets_of_dev(bin_folder, project, command)


@pytest.mark.timeout(600)
def test_a_new_project_may_also_be_installed(bin_folder: Path, tmp_path: Path) -> None:
    call(tmp_path, bin_folder / "lakehouse", "init", "my-lake")
    project, python = tmp_path / "my-lake", bin_folder / "python"
    call(tmp_path, UV, "pip", "install", "--quiet", "--no-deps", "--python", python, project)
    try:
        code = "import my_lake.defs; print((Path(my_lake.defs.__file__).parent / 'lakehouse' / 'defs.yaml').exists())"
        assert call(tmp_path, python, "-c", f"from pathlib import Path; {code}").strip() == "True"
        assert "readings" in call(project, bin_folder / "dg", "list", "defs")
    finally:
        call(tmp_path, UV, "pip", "uninstall", "--quiet", "--python", python, "my-lake")


@pytest.mark.timeout(600)
def test_a_new_project_from_the_wheel_reads_avro_with_its_own_registry(bin_folder: Path, tmp_path: Path) -> None:
    call(tmp_path, bin_folder / "lakehouse", "init", "my-lake")
    project = tmp_path / "my-lake"
    declaration_file = project / "src" / "my_lake" / "tables" / "readings.py"
    declaration_file.write_text(
        declaration_file.read_text()
        .replace("from lakehouse import ", "from lakehouse import Avro, ")
        .replace("    topic=", "    format=Avro(),\n    topic=")
    )
    assert_demo_shows_the_whole_path(bin_folder, project)
    query = "SELECT count(*) AS schemas FROM readings_schemas"
    assert '"schemas": 1' in call(project, bin_folder / "lakehouse", "query", "--json", query)


def list_assets_of_dev(bin_folder: Path, project: Path, program: str) -> set[str]:
    """The assets that ``dagster dev`` or ``dg dev`` shows in a folder, once it answers."""
    port, log = draw_port(), project / f"{program}.log"
    command = [str(bin_folder / program), "dev", "--port", str(port)]
    environment = user_environment(bin_folder)
    with log.open("w") as log_output:
        dev = subprocess.Popen(
            command, cwd=project, env=environment, stdout=log_output, stderr=log_output, start_new_session=True
        )
    names: set[str] = set()

    def has_assets() -> bool:
        with suppress(OSError):
            names.update(node["assetKey"]["path"][-1] for node in read_asset_nodes(port))
        return bool(names) or dev.poll() is not None

    try:
        assert wait_until(has_assets, 120), log.read_text()[-3000:]
    finally:
        os.killpg(dev.pid, signal.SIGINT)
        dev.wait(timeout=60)
    return names


def read_asset_nodes(port: int) -> list[dict[str, Any]]:
    """The assets of a Dagster webserver, with their groups and dependencies."""
    query = "{ assetNodes { assetKey { path } groupName dependencyKeys { path } } }"
    request = Request(
        f"http://127.0.0.1:{port}/graphql",
        data=json.dumps({"query": query}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=30) as response:  # noqa: S310 - on loopback
        nodes: list[dict[str, Any]] = json.load(response)["data"]["assetNodes"]
    return nodes


def assert_demo_shows_the_whole_path(bin_folder: Path, project: Path) -> None:
    output = " ".join(call(project, bin_folder / "lakehouse", "demo").split())
    assert re.search(r"1\. New records .* readings: 96 rows, 48 at each of 2 groups 96 rows inserted", output), output
    assert re.search(r"2\. Corrections .* readings: 96 rows, .* 6 rows changed", output), output
    assert "read = rejected + superseded + inserted + updated + stale" in output
    assert "no row changed" in output, "a replay changes nothing"
    assert "96 rows" in output
    rows = call(project, bin_folder / "lakehouse", "query", "--json", "SELECT count(*) AS n FROM readings_changes")
    assert '"n": 102' in rows


def read_group(port: int, group: str) -> dict[str, set[str]]:
    """The assets of a group in Dagster's webserver, with their dependencies."""
    nodes = [node for node in read_asset_nodes(port) if node["groupName"] == group]
    return {node["assetKey"]["path"][-1]: {key["path"][-1] for key in node["dependencyKeys"]} for node in nodes}


@pytest.fixture
def page(bin_folder: Path, tmp_path: Path) -> Iterator[TypedPage]:
    environment = user_environment(bin_folder, LAKEHOUSE_SPARK_DRIVER_MEMORY="1g")
    new_page = TypedPage(tmp_path, environment, declaration="src/my_lake/tables/orders.py")
    yield new_page
    new_page.stop()


@pytest.mark.timeout(900)
def test_the_page_about_a_new_topic_works_as_written(page: TypedPage) -> None:
    assert "\n\n".join(page.follow(read_steps(START / "your-topic.md"))) == ""
    graph = read_group(page.port, "orders")
    assert graph["orders"] == graph["orders_rejected"] == {"orders_topic"}
    assert graph["orders_changes"] == graph["orders_by_city"] == {"orders"}
