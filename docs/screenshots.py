"""Take the pictures of Dagster in the README: ``make screenshots``. They show a table after several merges.

Needs Chromium on the path. A second run replaces the pictures.
"""

from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
from playwright.sync_api import Page

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import publish
from lakehouse.local.broker import running_broker
from lakehouse_tests.helpers.dagster_runs import Lakehouse
from lakehouse_tests.helpers.webserver import create_home, open_page, running_webserver

_PICTURES = Path(__file__).parent / "pictures"
_MERGES = (400, 250, 900, 300, 650, 120, 1500, 800)  # records of each merge
_WIDTH, _HEIGHT = 1280, 720  # pixels


def main() -> None:
    """Merge generated records several times, and take the pictures."""
    with TemporaryDirectory() as folder:
        settings = create_home(Path(folder) / "home")
        with running_broker(settings):
            instance = dg.DagsterInstance.from_config(str(settings.home / "dagster"))
            lakehouse = Lakehouse(settings, instance, temperatures.topic)
            lines = temperatures.samples.stream() if temperatures.samples else iter(())
            for count in _MERGES:
                publish(settings, temperatures, [*islice(lines, count), b"{"])
                lakehouse.run("merge_temperatures")
            with running_webserver(settings) as url, open_page() as page:
                _take(page, f"{url}/assets/temperatures?view=lineage&lineageScope=neighbors", "lineage", "Materialized")
                _take(page, f"{url}/assets/temperatures?view=plots", "plots", "records_read")


def _take(page: Page, address: str, name: str, text: str) -> None:
    """Take a picture of a page once it shows a text."""
    page.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
    page.goto(address)
    page.get_by_text(text, exact=True).first.wait_for()
    page.wait_for_load_state("networkidle")
    page.screenshot(path=_PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
