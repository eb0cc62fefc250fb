"""The docstring of each package: it shows newcomers what the package contains."""

import ast
import re
from pathlib import Path

import pytest

from lakehouse_tests.helpers.places import ROOT

PACKAGE = ROOT / "lakehouse"
TEMPLATE = PACKAGE / "examples" / "template"
PACKAGES = sorted(file.parent for file in PACKAGE.rglob("*/__init__.py") if TEMPLATE not in file.parents)
BY_FAMILY = ("cli", "tables")  # one module per family of commands, one per table


@pytest.mark.parametrize("package", PACKAGES, ids=[str(package.relative_to(PACKAGE)) for package in PACKAGES])
def test_the_docstring_of_a_package_names_its_modules_on_one_screen(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {file.stem for file in package.glob("*.py")} - {"__init__"}
    modules |= {file.parent.name for file in package.glob("*/__init__.py")}
    assert modules
    if package.name not in BY_FAMILY:
        assert {name for name in modules if f"``{name}``" not in docstring} == set()
    assert len(docstring.splitlines()) <= 40


def test_the_contributing_page_names_existing_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    map_section = text.split("## To change X, go to Y")[1].split("\n## ")[0]
    rows = [line for line in map_section.splitlines() if line.startswith("| ")][1:]
    places = [re.findall(r"`(lakehouse/[^`]+)`", row) for row in rows]
    assert len(rows) >= 10 and all(places)
    assert [place for row in places for place in row if not (ROOT / place).exists()] == []


def test_the_page_of_facts_names_existing_packages_and_an_existing_module_for_each_fact() -> None:
    text = (ROOT / "docs" / "contributing" / "packages.md").read_text(encoding="utf-8")
    sections = [section.split("\n", 1) for section in text.split("\n## ")[1:]]
    assert {name for name, _ in sections} <= {package.name for package in PACKAGES}
    for name, section in sections:
        facts = section.strip().removeprefix("- ").split("\n- ")
        modules = [re.search(r"\(`([\w/]+\.py)`\)$", fact) for fact in facts]
        assert [fact for fact, module in zip(facts, modules, strict=True) if not module] == []
        assert [module[1] for module in modules if module and not (PACKAGE / module[1]).exists()] == []
        assert all(module[1].startswith(f"{name}/") for module in modules if module)
        assert [fact for fact in facts if len(fact.rpartition(" (`")[0].split()) > 25] == []
