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
from lakehouse.local.servers import running_broker
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
                page.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
                _take_lineage(page, f"{url}/assets/temperatures?view=lineage&lineageScope=neighbors")
                _take_plots(page, f"{url}/assets/temperatures?view=overview")


def _take_lineage(page: Page, address: str) -> None:
    """Take a picture of the table and its neighbors, once all of them are loaded."""
    page.goto(address)
    page.get_by_text("Materialized", exact=True).first.wait_for()
    page.wait_for_function("!document.body.innerText.includes('Loading...')")
    page.screenshot(path=_PICTURES / "lineage.png")


def _take_plots(page: Page, address: str) -> None:
    """Take a picture of the figures of the runs over time."""
    page.goto(address)
    page.get_by_text("Plots", exact=True).click()
    page.get_by_text("records_read", exact=True).first.scroll_into_view_if_needed()
    page.wait_for_load_state("networkidle")
    page.mouse.wheel(0, 300)
    page.wait_for_timeout(1_000)  # the plots are animated
    page.screenshot(path=_PICTURES / "plots.png")


if __name__ == "__main__":
    main()
