"""The page about changes in a topic: its commands, typed in a new project."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_tests.helpers.pages import HOW_TO, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment

STEPS = read_steps(HOW_TO / "changes-topic.md")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[TypedPage]:
    page = TypedPage(tmp_path, user_environment(Path(sys.executable).parent, PYTHONPATH=str(ROOT)))
    yield page
    page.stop()


@pytest.mark.timeout(900)
def test_the_steps_of_the_page_lead_to_changes_in_a_topic(page: TypedPage) -> None:
    assert page.follow(step for step in STEPS if step.language == "sh") == []
