"""The page about the demo: its commands, typed in a clone, print what it shows."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_tests.helpers.pages import START, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment


@pytest.fixture
def page(tmp_path: Path) -> Iterator[TypedPage]:
    """The files of a clone that its commands read; the code is ours.

    Without the other example, which needs a schema registry.
    """
    for name in ("pyproject.toml", "workspace.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "data", tmp_path / "data")
    declarations = "lakehouse.examples.tables.temperatures"
    variables = {"PYTHONPATH": str(ROOT), "LAKEHOUSE_DECLARATIONS": declarations}
    page = TypedPage(tmp_path, user_environment(Path(sys.executable).parent, **variables))
    yield page
    page.stop()


@pytest.mark.timeout(900)
def test_the_commands_of_the_demo_print_what_the_page_shows(page: TypedPage) -> None:
    assert "\n\n".join(page.follow(read_steps(START / "demo.md"))) == ""
