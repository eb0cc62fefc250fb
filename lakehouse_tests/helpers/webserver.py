"""Dagster's webserver on a home of its own, and a page of a real browser that shows it."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from lakehouse.local.embedded import draw_port
from lakehouse.local.process import Child
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.waiting import wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = [
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
_DAGSTER_YAML = """\
telemetry: {enabled: false}
nux: {enabled: false}
run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}
"""


def create_home(folder: Path) -> Settings:
    """Create a state folder whose Dagster starts runs without its daemon."""
    settings = Settings(home=folder, _env_file=None)
    (settings.home / "dagster").mkdir(parents=True)
    (settings.home / "dagster" / "dagster.yaml").write_text(_DAGSTER_YAML)
    return settings


@contextmanager
def running_webserver(settings: Settings) -> Iterator[str]:
    """Yield the address of a webserver; it and every process that it started end afterwards."""
    port = draw_port()
    workspace = str(ROOT / "workspace.yaml")
    command = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port), "-w", workspace]
    variables = {
        "DAGSTER_HOME": str(settings.home / "dagster"),
        "LAKEHOUSE_HOME": str(settings.home),
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(settings),
    }
    server = Child(command, settings.home / "webserver.log", variables)
    try:
        assert wait_until(lambda: _answers(port, server), 90), "the webserver does not answer"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(20)


@contextmanager
def open_page() -> Iterator[Page]:
    """Yield an empty page of a browser; needs Chromium on the path."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        page.set_default_timeout(60_000)
        yield page
        browser.close()


def _answers(port: int, server: Child) -> bool:
    assert server.is_alive(), "the webserver ended by itself"
    with suppress(OSError), closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request("GET", "/server_info")
        return connection.getresponse().status == 200
    return False
