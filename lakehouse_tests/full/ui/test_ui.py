"""The built UI in a real browser: what a person sees before and after pressing Materialize."""

import re
from collections.abc import Iterator

import dagster as dg
import pytest
from playwright.sync_api import Page

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import publish
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse_tests.helpers.webserver import CHROMIUM, create_home, open_page, running_webserver

RECORDS = 120
REASON = "Version 7 counts 3 records twice."
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: install Debian's package chromium"),
    pytest.mark.timeout(420),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A state folder with a broker of its own, and records waiting in its topic."""
    settings = create_home(tmp_path_factory.mktemp("ui"))
    with running_broker(settings):
        lines = [line for line, _ in zip(temperatures.samples.stream(), range(RECORDS), strict=False)]
        assert publish(settings, temperatures, [*lines, b"{"]) == RECORDS + 1
        yield settings


@pytest.fixture(scope="module")
def url(home: Settings) -> Iterator[str]:
    with running_webserver(home) as address:
        yield address


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Page]:
    with open_page() as page:
        yield page


@pytest.fixture(scope="module")
def materialized_asset(page: Page, url: str) -> None:
    """The merged table and its rejected records, materialized by the button of the lineage."""
    page.goto(f"{url}/assets/temperatures?view=lineage&lineageScope=neighbors")
    press_materialize(page)
    # Dagster asks for a confirmation, because no base rows were loaded
    dialog = page.get_by_role("dialog").filter(has_text="temperatures_base")
    dialog.get_by_role("button", name="Confirm").click()
    page.get_by_text("Launched run").first.wait_for()
    page.get_by_text("Materialized", exact=True).wait_for(timeout=240_000)


def press_materialize(page: Page) -> None:
    page.get_by_role("button").filter(has_text=re.compile("^Materialize$")).click()


def test_a_person_sees_the_lineage_without_maintenance(page: Page, url: str) -> None:
    page.goto(f"{url}/assets/temperatures?view=lineage&lineageScope=neighbors")
    for name in ("temperatures_topic", "temperatures_base", "temperatures_changes", "temperatures_by_location"):
        page.get_by_text(name, exact=True).first.wait_for()
    assert page.get_by_text("temperatures_maintenance", exact=True).count() == 0


@pytest.mark.usefixtures("materialized_asset")
def test_after_materialize_a_person_sees_the_row_count_and_named_figures(page: Page, url: str) -> None:
    page.goto(f"{url}/assets/temperatures?view=overview")
    row_count_cell = page.get_by_text("Row count", exact=True).locator("..")
    row_count_cell.get_by_text(str(RECORDS), exact=True).wait_for()
    for name in ("records_read", "records_rejected", "rows_inserted", "lag_after", "size_bytes"):
        page.get_by_text(name, exact=True).first.wait_for()
    assert page.get_by_text("gaps", exact=True).count() == 0, "a figure that is zero is left out"


@pytest.mark.usefixtures("materialized_asset")
def test_the_rejected_table_shows_the_reason(page: Page, url: str) -> None:
    page.goto(f"{url}/assets/temperatures_rejected?view=overview")
    page.get_by_text("records_unresolved", exact=True).first.wait_for()
    page.get_by_text("truncated").first.wait_for()


@pytest.mark.usefixtures("materialized_asset")
def test_the_rollup_shows_its_newest_groups(page: Page, url: str) -> None:
    page.goto(f"{url}/assets/temperatures_by_location?view=events")
    press_materialize(page)
    row = page.get_by_role("row").filter(has=page.get_by_text("groups", exact=True)).first
    row.get_by_text("temperature_max").first.wait_for(timeout=240_000)


def test_a_failed_check_shows_its_reason(page: Page, url: str, home: Settings) -> None:
    with dg.DagsterInstance.from_config(str(home.home / "dagster")) as instance:
        key = dg.AssetKey("temperatures")
        evaluation = dg.AssetCheckEvaluation(key, "records_accounted", passed=False, description=REASON)
        instance.report_runless_asset_event(evaluation)
    page.goto(f"{url}/assets/temperatures?view=checks&checkDetail=records_accounted")
    page.get_by_text(REASON).first.wait_for()
