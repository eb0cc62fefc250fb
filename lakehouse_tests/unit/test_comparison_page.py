"""The comparison of the README is part of the page, and each column of the page has a source with a version."""

import re

import pytest

from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "explanation" / "comparison.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def table_with(text: str, header: str) -> list[list[str]]:
    """The cells of the table whose first line begins with this text, without the line below it."""
    lines = text[text.index(f"\n{header}") + 1 :].split("\n\n", maxsplit=1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("|---")]


LISTED_SOURCES = PAGE.split("\n## Sources\n")[1].split("\n## ")[0]
COMPARED = table_with(PAGE, "| | lakehouse")
SHORT_TABLE = table_with(README, "| | lakehouse")
SOURCES = {
    name: rest for name, *rest in re.findall(r"^- ([^,\n]+), ([^:]+): (.+?)(?=^- |\Z)", LISTED_SOURCES, re.M | re.S)
}


def test_the_readme_has_ten_rows_of_the_page() -> None:
    assert SHORT_TABLE[0] == COMPARED[0]
    assert len(SHORT_TABLE) == 11
    assert [row for row in SHORT_TABLE if row not in COMPARED] == []


@pytest.mark.parametrize("column", COMPARED[0][2:])
def test_a_column_has_a_source_with_its_version(column: str) -> None:
    version, files = SOURCES[column]
    assert re.search(r"\d+\.\d+", version)
    assert "`" in files


def test_every_row_has_a_cell_for_every_column() -> None:
    assert {len(row) for row in COMPARED} == {len(COMPARED[0])}
    assert all(cell for row in COMPARED[1:] for cell in row)


def test_the_readme_has_at_most_130_lines() -> None:
    assert len(README.splitlines()) <= 130
