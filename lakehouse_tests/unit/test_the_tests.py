"""The tests themselves: none of the invariants lacks one, and what they patch exists."""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from lakehouse_tests.full.faults.test_crash import CASES, GAP_POINTS
from lakehouse_tests.full.integration.test_deaths import STEPS
from lakehouse_tests.helpers import same_tests
from lakehouse_tests.helpers.invariants import invariants
from lakehouse_tests.helpers.places import ROOT

TESTS = ROOT / "lakehouse_tests"


def named_in(node: ast.AST) -> set[int]:
    """The invariants that the marks in a piece of a file name."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    marks = [call for call in calls if ast.unparse(call.func) == "pytest.mark.invariant"]
    return {ast.literal_eval(number) for mark in marks for number in mark.args}


def is_slow(node: ast.AST) -> bool:
    """Whether a test, or what a whole file is marked by, leaves it to the slices."""
    marks = node.decorator_list if isinstance(node, ast.FunctionDef) else [node]
    return any(ast.unparse(each) == "pytest.mark.slow" for mark in marks for each in ast.walk(mark))


def marked(source: str) -> set[int]:
    """The invariants that the tests of a file name which run with every change."""
    body = ast.parse(source).body
    of_file = [
        node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    tests = [node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    running = [] if any(map(is_slow, of_file)) else [test for test in tests if not is_slow(test)]
    return {number for node in (*(of_file if running else ()), *running) for number in named_in(node)}


def test_what_a_slice_runs_is_not_counted_for_an_invariant() -> None:
    quick, slow = "@pytest.mark.invariant({})\ndef test_{}(): ...\n", "@pytest.mark.slow\n"
    assert marked(quick.format(1, "a") + slow + quick.format(2, "b")) == {1}
    assert marked("pytestmark = pytest.mark.invariant(3)\n" + slow + quick.format(2, "b")) == set()
    assert marked("pytestmark = [pytest.mark.invariant(3), pytest.mark.slow]\n" + quick.format(1, "a")) == set()


def test_every_invariant_of_the_design_has_a_test_on_real_parts_that_runs_with_every_change() -> None:
    files = [file.read_text(encoding="utf-8") for file in (TESTS / "real").glob("test_*.py")]
    assert invariants() == set(range(1, len(invariants()) + 1))
    assert invariants() == set().union(*map(marked, files))


def module_named(module: ModuleType, node: ast.AST) -> ModuleType | None:
    """The module of the product that an expression in a test's file names."""
    if isinstance(node, ast.Attribute):
        owner = module_named(module, node.value)
        found = getattr(owner, node.attr, None)
    else:
        found = vars(module).get(node.id) if isinstance(node, ast.Name) else None
    return found if isinstance(found, ModuleType) and found.__name__.startswith("lakehouse") else None


def used(file: Path) -> Iterator[tuple[str, str, ModuleType | None, str]]:
    """Names of the product's modules that a file uses, or patches by text: where, as what, the module, the name."""
    module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield f"{file.name}:{node.lineno}", "used", module_named(module, node.value), node.attr
        if not isinstance(node, ast.Call):
            continue
        where = f"{file.name}:{node.lineno}"
        texts = [str(each.value) if isinstance(each, ast.Constant) else "" for each in node.args]
        if texts and re.fullmatch(r"lakehouse\.[\w.]+", texts[0]):
            owner, _, name = texts[0].rpartition(".")
            yield where, "patched", importlib.import_module(owner), name
        for owner_node, name in zip(node.args, texts[1:], strict=False):
            if name:
                yield where, "patched", module_named(module, owner_node), name


def test_what_the_tests_use_and_patch_of_a_module_exists() -> None:
    files = [file for part in ("full", "helpers", "real", "unit") for file in (TESTS / part).rglob("*.py")]
    found = [(where, how, owner, name) for file in files for where, how, owner, name in used(file) if owner]
    assert {how for _, how, *_ in found} == {"used", "patched"}
    assert [(where, name) for where, _, owner, name in found if not hasattr(owner, name)] == []


def test_the_points_at_which_a_worker_dies_exist() -> None:
    within = (point for _, points in STEPS.values() for point in points)
    points = [*(case.point for case in CASES), *GAP_POINTS.values(), *within]
    named = [point.at.rpartition(".") for point in points if point.at != "write"]
    assert named
    assert [name for module, _, name in named if not hasattr(sys.modules[f"lakehouse.{module}"], name)] == []


def test_what_is_run_once_more_elsewhere_exists() -> None:
    for name in {*same_tests.CONNECT, *same_tests.ENGINE, *same_tests.PLANS}:
        file, _, test = name.partition("::")
        assert f"def {test or 'test_'}" in (TESTS / file).read_text(encoding="utf-8"), name
