"""The mark by which a test says which invariants of ``docs/design.md`` it proves."""

import re

import pytest

from lakehouse_tests.helpers.places import ROOT

_SECTION = re.compile(r"^## 3\. Invariants.*?(?=^## )", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"^(\d+)\. \*\*", re.MULTILINE)


def invariants() -> set[int]:
    """The numbers of the invariants in the design."""
    section = _SECTION.search((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))
    return {int(number) for number in _NUMBER.findall(section[0])} if section else set()


def named_by(item: pytest.Item) -> set[int]:
    """The invariants that a test names, for itself or with its whole file."""
    return {number for mark in item.iter_markers("invariant") for number in mark.args}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "invariant(*numbers): the invariants of docs/design.md that a test proves.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    there = invariants()
    unknown = {item.nodeid for item in items if named_by(item) - there}
    if unknown:
        raise pytest.UsageError(f"An invariant that docs/design.md does not have is named by {', '.join(unknown)}")
