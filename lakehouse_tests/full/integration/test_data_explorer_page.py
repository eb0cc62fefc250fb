"""The page about Azure Data Explorer: its commands, typed in a new project, against a double of the service."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_tests.helpers.databases.data_explorer import running_data_explorer
from lakehouse_tests.helpers.pages import HOW_TO, Step, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment

STEPS = read_steps(HOW_TO / "data-explorer.md")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[TypedPage]:
    page = TypedPage(tmp_path, user_environment(Path(sys.executable).parent, PYTHONPATH=str(ROOT)))
    yield page
    page.stop()


def with_service(step: Step, port: int) -> Step:
    """A step with the address of the double, to which the library sends no key."""
    return step._replace(text=re.sub(r"https://shop[^;]*", f"http://127.0.0.1:{port}", step.text))


@pytest.mark.timeout(900)
def test_the_steps_of_the_page_lead_to_rows_in_data_explorer(page: TypedPage) -> None:
    install, *steps = [step for step in STEPS if step.language == "sh"]
    assert install.text.startswith("pip install ")
    with running_data_explorer() as service:
        assert page.follow(with_service(step, service.port) for step in steps) == []
        rows = service.current_rows("readings").values()
        assert sorted((row["sensor"], float(row["celsius"])) for row in rows) == [("cellar", 11.0), ("roof", 14.5)]
