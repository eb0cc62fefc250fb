"""The tests themselves: what they use, patch and run again exists."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lakehouse_tests.helpers import same_tests
from lakehouse_tests.helpers.missing_fixtures import pytest_collection_modifyitems
from lakehouse_tests.helpers.places import ROOT

TESTS = ROOT / "lakehouse_tests"


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
        if texts and ast.unparse(node.func) == "Point" and "." in texts[0]:  # a moment at which a worker dies
            texts[0] = f"lakehouse.{texts[0]}"
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


def test_no_result_of_a_wait_is_ignored() -> None:
    """A wait that is over without its condition would not be noticed."""
    assert [
        f"{file.name}:{node.lineno}"
        for file in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id == "wait_until"
    ] == []


def test_the_tests_that_run_again_elsewhere_exist() -> None:
    for name in {*same_tests.CONNECT, *same_tests.ENGINE, *same_tests.PLANS}:
        file, _, test = name.partition("::")
        assert f"def {test or 'test_'}" in (TESTS / file).read_text(encoding="utf-8"), name


def test_a_fixture_that_does_not_exist_is_named_with_its_test(request: pytest.FixtureRequest) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request.node, "fixturenames", ["request", "no_such_fixture"])
        with pytest.raises(pytest.UsageError, match="named_with_its_test requests the fixture no_such_fixture"):
            pytest_collection_modifyitems([request.node])


def test_existing_fixtures_are_accepted(request: pytest.FixtureRequest, tmp_path: object) -> None:
    pytest_collection_modifyitems([request.node])
