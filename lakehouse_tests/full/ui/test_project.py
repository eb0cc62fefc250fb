"""A project of ``dg`` in a real browser: a table that ``dg`` scaffolded, and the catalog that shows it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.local.embedded import draw_port
from lakehouse_tests.helpers.waiting import wait_until
from lakehouse_tests.helpers.webserver import CHROMIUM, open_page

SAMPLE = '{"price_id": 1, "item": "tea", "cents": 250}\n{"price_id": 2, "item": "milk", "cents": 120}\n'
BIN = Path(sys.executable).parent
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: install Debian's package chromium"),
    pytest.mark.timeout(420),
]


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of a person who has neither settings nor a state folder of Dagster."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEHOUSE_", "DAGSTER_"))}
    return {**variables, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def project(tmp_path: Path, environment: dict[str, str]) -> Path:
    """A new project with a table of prices that ``dg`` scaffolded from two records."""
    folder = tmp_path / "my-lake"

    def run(folder: Path, *command: str) -> None:
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)

    run(tmp_path, "lakehouse", "init", folder.name)
    (folder / "prices.jsonl").write_text(SAMPLE)
    scaffold = ("dg", "scaffold", "defs", "lakehouse.LakehouseTables", "prices", "--from-sample", "prices.jsonl")
    run(folder, *scaffold)
    return folder


@pytest.fixture
def url(project: Path, environment: dict[str, str]) -> Iterator[str]:
    port, log = draw_port(), project / "dev.log"
    with log.open("w") as output:
        dev = subprocess.Popen(
            ["dg", "dev", "--port", str(port)],
            cwd=project,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        assert wait_until(lambda: address in log.read_text() or dev.poll() is not None, 120), log.read_text()[-3000:]
        yield address
    finally:
        os.killpg(dev.pid, signal.SIGINT)
        dev.wait(timeout=60)


def test_a_scaffolded_table_is_in_the_lineage_with_its_description(url: str) -> None:
    with open_page() as page:
        page.goto(f"{url}/assets/prices?view=lineage&lineageScope=neighbors")
        for name in ("prices_topic", "prices", "prices_changes"):
            page.get_by_text(name, exact=True).first.wait_for()
        page.goto(f"{url}/assets/prices?view=checks")
        page.get_by_text("records_accounted", exact=True).first.wait_for()
