"""The marker with which a test names the invariants of ``docs/invariants.md`` that it proves."""

import re

import pytest

from lakehouse_tests.helpers.places import ROOT

_NUMBER = re.compile(r"^## (\d+)\. ", re.MULTILINE)


def invariants() -> set[int]:
    """Return the numbers of all invariants on the page."""
    return {int(number) for number in _NUMBER.findall((ROOT / "docs" / "invariants.md").read_text(encoding="utf-8"))}


def named_by(item: pytest.Item) -> set[int]:
    """Return the invariants that a test names, by itself or for its whole file."""
    return {number for mark in item.iter_markers("invariant") for number in mark.args}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "invariant(*numbers): the invariants of docs/invariants.md that a test proves.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    numbers = invariants()
    unknown = {item.nodeid for item in items if named_by(item) - numbers}
    if unknown:
        raise pytest.UsageError(f"Unknown number of an invariant, see docs/invariants.md: {', '.join(unknown)}")
