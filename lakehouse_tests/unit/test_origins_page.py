"""The page on replaced approaches names tests that exist."""

import re

import pytest

from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "explanation" / "origins.md").read_text(encoding="utf-8")
TEST_FILES = sorted(set(re.findall(r"`((?:full|real|unit)/[\w/]+\.py)`", PAGE)))
ROWS = [
    row for row in PAGE.splitlines() if row.startswith("|") and not row.startswith(("|---", "| it does", "| there"))
]


@pytest.mark.parametrize("name", TEST_FILES)
def test_a_test_that_the_page_names_exists(name: str) -> None:
    assert "def test_" in (ROOT / "lakehouse_tests" / name).read_text(encoding="utf-8")


def test_every_row_names_its_test_unless_there_is_none_yet() -> None:
    assert len(ROWS) > 50
    assert [row for row in ROWS if ".py`" not in row and "not yet" not in row] == []
