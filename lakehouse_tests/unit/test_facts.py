"""Every fact of ``docs/invariants.md`` is named by a test, and tests name only facts that are on the page."""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse_tests.helpers.invariants import fact_ids, invariant_of, invariants, pytest_collection_modifyitems
from lakehouse_tests.helpers.places import ROOT

TESTS = ROOT / "lakehouse_tests"
UNTESTED = {
    "11.3": "a rule for people: no code can keep another program away from a folder",
}


def ids_in(node: ast.AST) -> set[str]:
    """The facts that the marks in a part of a file name."""
    calls = [child for child in ast.walk(node) if isinstance(child, ast.Call)]
    marks = [call for call in calls if ast.unparse(call.func) == "pytest.mark.invariant"]
    return {ast.literal_eval(fact_id) for mark in marks for fact_id in mark.args}


def is_slow(node: ast.AST) -> bool:
    """Whether the marks of a test, or of a whole file, leave it to the slices."""
    marks = node.decorator_list if isinstance(node, ast.FunctionDef) else [node]
    return any(ast.unparse(child) == "pytest.mark.slow" for mark in marks for child in ast.walk(mark))


def file_marks(tree: ast.Module) -> list[ast.expr]:
    """The marks of a whole file."""
    assignments = [node for node in tree.body if isinstance(node, ast.Assign)]
    return [node.value for node in assignments if ast.unparse(node.targets[0]) == "pytestmark"]


def find_tests(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def named_ids(source: str) -> set[str]:
    """The facts that the tests of a file name."""
    tree = ast.parse(source)
    marked_nodes = (*file_marks(tree), *(mark for test in find_tests(tree) for mark in test.decorator_list))
    return set().union(*map(ids_in, marked_nodes))


def covered_ids(source: str) -> set[str]:
    """The facts that a file names in tests that run with every change."""
    tree = ast.parse(source)
    marks = file_marks(tree)
    running_tests = [] if any(map(is_slow, marks)) else [test for test in find_tests(tree) if not is_slow(test)]
    return set().union(*map(ids_in, (*(marks if running_tests else ()), *running_tests)))


def sources(folder: Path) -> Iterator[str]:
    return (file.read_text(encoding="utf-8") for file in folder.rglob("test_*.py") if file != Path(__file__))


def test_the_ids_on_the_page_are_numbered_in_order() -> None:
    assert invariants() == list(range(1, len(invariants()) + 1))
    assert fact_ids() == [
        f"{invariant}.{number}"
        for invariant in invariants()
        for number in range(1, 1 + sum(invariant_of(fact_id) == invariant for fact_id in fact_ids()))
    ]


def test_every_id_that_a_test_names_is_on_the_page() -> None:
    assert set().union(*map(named_ids, sources(TESTS))) - {*fact_ids()} == set()


def test_every_fact_is_named_by_a_test_or_listed_with_a_reason() -> None:
    unnamed_ids = {*fact_ids()} - set().union(*map(named_ids, sources(TESTS)))
    assert unnamed_ids == UNTESTED.keys()


def test_every_invariant_has_a_test_on_real_parts_with_every_change() -> None:
    ids = set().union(*map(covered_ids, sources(TESTS / "real")))
    assert {*invariants()} == set(map(invariant_of, ids))


def test_a_test_that_only_a_slice_runs_does_not_count_for_an_invariant() -> None:
    fast, slow = '@pytest.mark.invariant("{}")\ndef test_{}(): ...\n', "@pytest.mark.slow\n"
    assert covered_ids(fast.format("1.1", "a") + slow + fast.format("2.1", "b")) == {"1.1"}
    assert covered_ids('pytestmark = pytest.mark.invariant("3.1")\n' + slow + fast.format("2.1", "b")) == set()
    whole_file = 'pytestmark = [pytest.mark.invariant("3.1"), pytest.mark.slow]\n'
    assert covered_ids(whole_file + fast.format("1.1", "a")) == set()


@pytest.mark.parametrize("fact_id", ["3", "3.99", 3])
def test_an_id_that_is_not_on_the_page_stops_the_collection(fact_id: Any) -> None:
    item: Any = SimpleNamespace(nodeid="test_a", iter_markers=lambda _: [pytest.mark.invariant(fact_id).mark])
    with pytest.raises(pytest.UsageError, match=f"test_a names {fact_id}$"):
        pytest_collection_modifyitems([item])
