"""The tests themselves: every invariant has one, and what they patch exists."""

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


def invariants_in(node: ast.AST) -> set[int]:
    """The invariants that the marks in a part of a file name."""
    calls = [child for child in ast.walk(node) if isinstance(child, ast.Call)]
    marks = [call for call in calls if ast.unparse(call.func) == "pytest.mark.invariant"]
    return {ast.literal_eval(number) for mark in marks for number in mark.args}


def is_slow(node: ast.AST) -> bool:
    """Whether the marks of a test, or of a whole file, leave it to the slices."""
    marks = node.decorator_list if isinstance(node, ast.FunctionDef) else [node]
    return any(ast.unparse(child) == "pytest.mark.slow" for mark in marks for child in ast.walk(mark))


def covered_invariants(source: str) -> set[int]:
    """The invariants of the tests in a file that run with every change."""
    body = ast.parse(source).body
    file_marks = [
        node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    tests = [node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    running_tests = [] if any(map(is_slow, file_marks)) else [test for test in tests if not is_slow(test)]
    return {
        number for node in (*(file_marks if running_tests else ()), *running_tests) for number in invariants_in(node)
    }


def test_a_test_that_only_a_slice_runs_does_not_count_for_an_invariant() -> None:
    fast, slow = "@pytest.mark.invariant({})\ndef test_{}(): ...\n", "@pytest.mark.slow\n"
    assert covered_invariants(fast.format(1, "a") + slow + fast.format(2, "b")) == {1}
    assert covered_invariants("pytestmark = pytest.mark.invariant(3)\n" + slow + fast.format(2, "b")) == set()
    assert (
        covered_invariants("pytestmark = [pytest.mark.invariant(3), pytest.mark.slow]\n" + fast.format(1, "a")) == set()
    )


def test_every_invariant_of_the_design_has_a_test_on_real_parts_with_every_change() -> None:
    files = [file.read_text(encoding="utf-8") for file in (TESTS / "real").glob("test_*.py")]
    assert invariants() == set(range(1, len(invariants()) + 1))
    assert invariants() == set().union(*map(covered_invariants, files))


def find_module(module: ModuleType, node: ast.AST) -> ModuleType | None:
    """The module of the product that an expression in a test file refers to."""
    if isinstance(node, ast.Attribute):
        owner = find_module(module, node.value)
        value = getattr(owner, node.attr, None)
    else:
        value = vars(module).get(node.id) if isinstance(node, ast.Name) else None
    return value if isinstance(value, ModuleType) and value.__name__.startswith("lakehouse") else None


def used_names(file: Path) -> Iterator[tuple[str, str, ModuleType | None, str]]:
    """Names of product modules that a file uses, or patches by text: location, kind of use, module, name."""
    module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield f"{file.name}:{node.lineno}", "used", find_module(module, node.value), node.attr
        if not isinstance(node, ast.Call):
            continue
        location = f"{file.name}:{node.lineno}"
        texts = [str(argument.value) if isinstance(argument, ast.Constant) else "" for argument in node.args]
        if texts and re.fullmatch(r"lakehouse\.[\w.]+", texts[0]):
            owner, _, name = texts[0].rpartition(".")
            yield location, "patched", importlib.import_module(owner), name
        for owner_node, name in zip(node.args, texts[1:], strict=False):
            if name:
                yield location, "patched", find_module(module, owner_node), name


def test_every_name_that_the_tests_use_or_patch_exists() -> None:
    files = [file for part in ("full", "helpers", "real", "unit") for file in (TESTS / part).rglob("*.py")]
    uses = [
        (location, kind, owner, name) for file in files for location, kind, owner, name in used_names(file) if owner
    ]
    assert {kind for _, kind, *_ in uses} == {"used", "patched"}
    assert [(location, name) for location, _, owner, name in uses if not hasattr(owner, name)] == []


def test_the_functions_at_which_a_worker_dies_exist() -> None:
    step_points = (point for _, points in STEPS.values() for point in points)
    points = [*(case.point for case in CASES), *GAP_POINTS.values(), *step_points]
    functions = [point.at.rpartition(".") for point in points if point.at != "write"]
    assert functions
    assert [name for module, _, name in functions if not hasattr(sys.modules[f"lakehouse.{module}"], name)] == []


def test_the_tests_that_run_again_elsewhere_exist() -> None:
    for name in {*same_tests.CONNECT, *same_tests.ENGINE, *same_tests.PLANS}:
        file, _, test = name.partition("::")
        assert f"def {test or 'test_'}" in (TESTS / file).read_text(encoding="utf-8"), name
