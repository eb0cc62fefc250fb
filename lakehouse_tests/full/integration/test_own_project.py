"""From the wheel, in an environment of its own, to tables of a project of one's own: the first hour of a user."""

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

from lakehouse.local.ports import draw_port
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.waiting import wait_until

READY = "Dagster is at"
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
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=surroundings(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def surroundings() -> dict[str, str]:
    """The environment of a user, with no setting of ours but where jars are."""
    ours = ("LAKEHOUSE_", "PYTHON", "VIRTUAL_ENV", "DAGSTER_")
    return {name: value for name, value in os.environ.items() if name == "LAKEHOUSE_JARS" or not name.startswith(ours)}


@pytest.mark.timeout(600)
def test_a_project_from_the_wheel_runs_as_it_is(installed: Path, tmp_path: Path) -> None:
    call(tmp_path, installed / "lakehouse", "init", "my-lake")
    project = tmp_path / "my-lake"
    assert "2 passed" in call(project, installed / "python", "-m", "pytest")
    shows_the_whole_path(installed, project)
    assert {"readings", "readings_by_sensor"} <= assets_of_dagster_dev(installed, project)


@pytest.mark.timeout(600)
def test_a_project_from_the_wheel_reads_avro_with_a_registry_of_its_own(installed: Path, tmp_path: Path) -> None:
    call(tmp_path, installed / "lakehouse", "init", "my-lake")
    project = tmp_path / "my-lake"
    declared = project / "tables" / "readings.py"
    declared.write_text(
        declared.read_text()
        .replace("from lakehouse import ", "from lakehouse import Avro, ")
        .replace("    topic=", "    format=Avro(),\n    topic=")
    )
    shows_the_whole_path(installed, project)
    query = "SELECT count(*) AS schemas FROM readings_schemas"
    assert '"schemas": 1' in call(project, installed / "lakehouse", "query", "--json", query)


def assets_of_dagster_dev(installed: Path, project: Path) -> set[str]:
    """The assets that ``dagster dev`` shows in a folder, once it answers."""
    port, log = draw_port(), project / "dev.log"
    command = [str(installed / "dagster"), "dev", "--port", str(port)]
    environment = {**surroundings(), "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}"}
    with log.open("w") as out:
        dev = subprocess.Popen(command, cwd=project, env=environment, stdout=out, stderr=out, start_new_session=True)
    names: set[str] = set()

    def told() -> bool:
        with suppress(OSError):
            names.update(node["assetKey"]["path"][-1] for node in asset_nodes(port))
        return bool(names) or dev.poll() is not None

    try:
        assert wait_until(told, 120), log.read_text()[-3000:]
    finally:
        os.killpg(dev.pid, signal.SIGINT)
        dev.wait(timeout=60)
    return names


def asset_nodes(port: int) -> list[dict[str, Any]]:
    """The assets that a webserver of Dagster's has, each with its group and what it is made from."""
    query = "{ assetNodes { assetKey { path } groupName dependencyKeys { path } } }"
    asked = Request(
        f"http://127.0.0.1:{port}/graphql",
        data=json.dumps({"query": query}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urlopen(asked, timeout=30) as answer:  # noqa: S310 - on loopback
        nodes: list[dict[str, Any]] = json.load(answer)["data"]["assetNodes"]
    return nodes


def shows_the_whole_path(installed: Path, project: Path) -> None:
    told = " ".join(call(project, installed / "lakehouse", "demo").split())
    assert re.search(r"1\. New records .* readings: 96 rows, 48 at each of 2 groups 96 rows inserted", told), told
    assert re.search(r"2\. Corrections .* readings: 96 rows, .* 6 rows changed", told), told
    assert "read = rejected + duplicate + inserted + updated + stale" in told
    assert "no row changed" in told, "a replay changes nothing"
    assert "96 rows" in told
    rows = call(project, installed / "lakehouse", "query", "--json", "SELECT count(*) AS n FROM readings_changes")
    assert '"n": 102' in rows


class Page:
    """The page of a new topic, followed by a person in one folder: what stands in its boxes is typed, and answered."""

    def __init__(self, bin_: Path, folder: Path) -> None:
        self.boxes = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs/start/your-topic.md").read_text(), re.DOTALL)
        self.bin, self.folder, self.port = bin_, folder, draw_port()
        self.up: subprocess.Popen[bytes] | None = None
        kept = surroundings()
        self.environment = {**kept, "PATH": f"{bin_}{os.pathsep}{kept['PATH']}", "LAKEHOUSE_SPARK_DRIVER_MEMORY": "1g"}

    def follow(self) -> str:
        """Type box after box; returns all that was answered."""
        told = ""
        for kind, text in self.boxes:
            if kind == "python":
                (self.folder / "tables" / "orders.py").write_text(text)
            elif text.strip() == "lakehouse up":
                self._start()
            elif kind == "sh":
                told += self._type(text)
        return told

    def _type(self, text: str) -> str:
        command = ["bash", "-ec", f"{text}\npwd > .where"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, text + done.stdout[-3000:] + done.stderr[-3000:]
        (where,) = [*self.folder.glob(".where"), *self.folder.glob("*/.where")]
        self.folder = Path(where.read_text().strip())
        where.unlink()
        return done.stdout

    def _start(self) -> None:
        log = self.folder / "up.log"
        command = [str(self.bin / "lakehouse"), "up", "--port", str(self.port)]
        with log.open("w") as out:
            up = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=out, stderr=out)
        self.up = up
        assert wait_until(lambda: READY in log.read_text() or up.poll() is not None, 180)
        assert READY in log.read_text(), log.read_text()[-3000:]

    def graph(self) -> dict[str, set[str]]:
        """The assets of the group, as Dagster's webserver has them, and what each is made from."""
        mine = [node for node in asset_nodes(self.port) if node["groupName"] == "orders"]
        return {node["assetKey"]["path"][-1]: {key["path"][-1] for key in node["dependencyKeys"]} for node in mine}

    def stop(self) -> None:
        if self.up:
            self.up.send_signal(signal.SIGINT)
            self.up.wait(timeout=60)


@pytest.fixture
def page(installed: Path, tmp_path: Path) -> Iterator[Page]:
    made = Page(installed, tmp_path)
    yield made
    made.stop()


@pytest.mark.timeout(900)
def test_the_page_of_a_new_topic_is_followed_to_the_letter(page: Page) -> None:
    told = page.follow()
    (notes,) = [text for kind, text in page.boxes if kind == ""]
    assert [line for line in notes.splitlines() if line not in told] == []
    assert "rejected, wrong_" in told
    rows = [line.split() for line in told.splitlines() if re.match(r"\s*\d+\s+\w+\s", line)]
    assert [row for row in rows if row[1] in ("Ada", "Emmy", "Mary")][-3:] == [
        ["1", "Ada", "London", "12.50"],
        ["2", "Emmy", "Erlangen", "8.00"],
        ["3", "Mary", "3.75"],
    ]
    assert "wrong_type" in told or "wrong_time" in told
    graph = page.graph()
    assert graph["orders"] == graph["orders_rejected"] == {"orders_topic"}
    assert graph["orders_changes"] == graph["orders_by_city"] == {"orders"}
