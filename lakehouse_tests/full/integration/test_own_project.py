"""From the wheel, in an environment of its own, to tables of a project of one's own: the first hour of a user."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from lakehouse.local.ports import draw_port
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.waiting import wait_until

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


def call(folder: Path, *command: str | Path, bin_folder: Path | None = None) -> str:
    """Run a command as a user would, with no setting of this machine but where its jars are."""
    kept = environment(bin_folder)
    done = subprocess.run(list(map(str, command)), cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def environment(bin_folder: Path | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name == "LAKEHOUSE_JARS" or not _is_ours(name)}
    return {**kept, "PATH": f"{bin_folder}{os.pathsep}{kept['PATH']}"} if bin_folder else kept


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


class Reader:
    """Somebody who types what a page says, block by block."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        self.folder, self.bin_folder = folder, bin_folder
        self.port = draw_port()
        self.told: list[str] = []
        self.up: subprocess.Popen[bytes] | None = None

    def follows(self, page: Path) -> None:
        for language, block in re.findall(r"```(\w*)\n(.*?)```", page.read_text(), re.DOTALL):
            if language == "python":
                (self.folder / "tables" / "orders.py").write_text(block)
            elif block == "lakehouse up\n":
                self.starts()
            elif language == "sh":
                told = call(self.folder, "bash", "-euo", "pipefail", "-c", f"{block}\npwd", bin_folder=self.bin_folder)
                *said, folder = told.splitlines()
                self.told.append("\n".join(said))
                self.folder = Path(folder)
            else:
                assert all(line in self.told[-1] for line in block.splitlines()), self.told[-1]

    def starts(self) -> None:
        log = self.folder / "up.log"
        with log.open("w") as out:
            command = [str(self.bin_folder / "lakehouse"), "up", "--port", str(self.port)]
            self.up = subprocess.Popen(
                command, cwd=self.folder, env=environment(self.bin_folder), stdout=out, stderr=out
            )
        assert wait_until(lambda: f"Dagster is at http://127.0.0.1:{self.port}" in log.read_text(), 120), (
            log.read_text()
        )

    def asks(self, query: str) -> Any:
        """Ask Dagster what its UI asks."""
        asked = Request(f"http://127.0.0.1:{self.port}/graphql", json.dumps({"query": query}).encode())
        asked.add_header("Content-Type", "application/json")
        with urlopen(asked, timeout=30) as answer:  # noqa: S310 - a server of ours
            return json.load(answer)["data"]

    def stops(self) -> None:
        if self.up and self.up.poll() is None:
            self.up.send_signal(signal.SIGINT)
            self.up.wait(timeout=60)


@pytest.fixture
def reader(installed: Path, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path, installed)
    yield reader
    reader.stops()


@pytest.mark.timeout(900)
def test_the_page_leads_from_an_empty_folder_to_lineage_rows_and_rejected_records(reader: Reader) -> None:
    reader.follows(ROOT / "docs" / "add-a-topic.md")
    *_, merged, looked = reader.told
    assert "orders" in merged
    for told in ("Ada", "London", "12.50", "Erlangen", "8.00", "wrong_type"):
        assert told in looked, looked
    nodes = reader.asks("{ assetNodes { assetKey { path } groupName dependencyKeys { path } } }")["assetNodes"]
    lineage = {node["assetKey"]["path"][0]: {key["path"][0] for key in node["dependencyKeys"]} for node in nodes}
    assert lineage["orders"] == {"orders_topic"}
    assert lineage["orders_by_city"] >= {"orders"}
    assert {"orders_rejected", "orders_changes"} <= {name for name, made_from in lineage.items() if made_from}

    def materialized() -> bool:
        found = reader.asks('{ assetNodes(assetKeys: [{path: ["orders"]}]) { assetMaterializations { runId } } }')
        return bool(found["assetNodes"][0]["assetMaterializations"])

    assert wait_until(materialized, 120), "the sensor asked for no run"
