"""What a package says of itself: a newcomer reads there what is in it."""

import ast
import re
from pathlib import Path

import pytest

from lakehouse_tests.helpers.places import ROOT

ROOM = ROOT / "lakehouse"
TEMPLATE = ROOM / "examples" / "template"
PACKAGES = sorted(file.parent for file in ROOM.rglob("*/__init__.py") if TEMPLATE not in file.parents)
BY_FAMILY = ("cli", "tables")  # one module for each family of verbs, one for each table


@pytest.mark.parametrize("package", PACKAGES, ids=[str(package.relative_to(ROOM)) for package in PACKAGES])
def test_a_package_names_its_modules_in_one_screen(package: Path) -> None:
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {file.stem for file in package.glob("*.py")} - {"__init__"}
    modules |= {file.parent.name for file in package.glob("*/__init__.py")}
    assert modules
    if package.name not in BY_FAMILY:
        assert {name for name in modules if f"``{name}``" not in said} == set()
    assert len(said.splitlines()) <= 40


def test_contributing_names_places_that_there_are() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    map_of_changes = text.split("## To change X, go to Y")[1].split("\n## ")[0]
    rows = [line for line in map_of_changes.splitlines() if line.startswith("| ")][1:]
    places = [re.findall(r"`(lakehouse/[^`]+)`", row) for row in rows]
    assert len(rows) >= 10 and all(places)
    assert [place for row in places for place in row if not (ROOT / place).exists()] == []
