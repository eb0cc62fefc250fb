"""The built UI in a real browser: what a person sees before and after pressing Materialize."""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection

import pytest

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import publish
from lakehouse.local.broker import running_broker
from lakehouse.local.ports import draw_port
from lakehouse.local.process import Child
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.waiting import wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# runs start at once, without the daemon, whose sensor would merge before the button is pressed
DAGSTER_YAML = """\
telemetry: {enabled: false}
nux: {enabled: false}
run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}
"""
RECORDS = 120
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: install Debian's package chromium"),
    pytest.mark.timeout(420),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A state folder with a broker of its own, and records waiting in its topic."""
    settings = Settings(home=tmp_path_factory.mktemp("ui"), _env_file=None)
    (settings.home / "dagster").mkdir()
    (settings.home / "dagster" / "dagster.yaml").write_text(DAGSTER_YAML)
    with running_broker(settings):
        lines = [line for line, _ in zip(temperatures.samples.stream(), range(RECORDS), strict=False)]
        assert publish(settings, temperatures, lines) == RECORDS
        yield settings


@pytest.fixture(scope="module")
def url(home: Settings) -> Iterator[str]:
    """Address of a webserver; it and every process it started end with the test."""
    port = draw_port()
    workspace = str(ROOT / "workspace.yaml")
    command = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port), "-w", workspace]
    variables = {
        "DAGSTER_HOME": str(home.home / "dagster"),
        "LAKEHOUSE_HOME": str(home.home),
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(home),
    }
    server = Child(command, home.home / "webserver.log", variables)
    try:
        assert wait_until(lambda: answers(port, server), 90), "the webserver does not answer"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(20)


def answers(port: int, server: Child) -> bool:
    assert server.alive(), "the webserver ended by itself"
    with suppress(OSError), closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request("GET", "/server_info")
        return connection.getresponse().status == 200
    return False


@pytest.fixture(scope="module")
def page(url):
    playwright = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        page.set_default_timeout(60_000)
        yield page
        browser.close()


def test_a_person_sees_the_lineage_presses_materialize_and_sees_the_row_count(page, url):
    page.goto(f"{url}/assets/temperatures?view=lineage&lineageScope=neighbors")
    for name in ("temperatures_topic", "temperatures_base", "temperatures_changes", "temperatures_by_location"):
        page.get_by_text(name, exact=True).first.wait_for()

    page.get_by_role("button").filter(has_text=re.compile("^Materialize$")).click()
    # Dagster asks for two confirmations: one step writes two tables, and no base rows were loaded
    for asset_name in ("temperatures_rejected", "temperatures_base"):
        dialog = page.get_by_role("dialog").filter(has_text=asset_name)
        dialog.get_by_role("button", name="Confirm").click()
    page.get_by_text("Launched run").first.wait_for()
    page.get_by_text("Materialized", exact=True).wait_for(timeout=240_000)

    page.goto(f"{url}/assets/temperatures?view=overview")
    row_count_cell = page.get_by_text("Row count", exact=True).locator("..")
    row_count_cell.get_by_text(str(RECORDS), exact=True).wait_for()
