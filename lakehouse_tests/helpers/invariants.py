"""The marker with which a test names the facts of ``docs/invariants.md`` that it proves, by their ids."""

import re

import pytest

from lakehouse_tests.helpers.places import ROOT

_PAGE = ROOT / "docs" / "invariants.md"
_FACT = re.compile(r"^- \*\*(\d+\.\d+)\*\* ", re.MULTILINE)
_INVARIANT = re.compile(r"^## (\d+)\. ", re.MULTILINE)


def fact_ids() -> list[str]:
    """Return the ids of all facts on the page, in their order."""
    return _FACT.findall(_PAGE.read_text(encoding="utf-8"))


def invariants() -> list[int]:
    """Return the numbers of all invariants on the page, in their order."""
    return [int(number) for number in _INVARIANT.findall(_PAGE.read_text(encoding="utf-8"))]


def invariant_of(fact_id: str) -> int:
    """Return the number of the invariant to which a fact belongs."""
    return int(fact_id.partition(".")[0])


def named_by(item: pytest.Item) -> set[str]:
    """Return the facts that a test names, by itself or for its whole file."""
    return {fact_id for mark in item.iter_markers("invariant") for fact_id in mark.args}


def pytest_configure(config: pytest.Config) -> None:
    line = "invariant(*ids): the facts of docs/invariants.md that a test proves, such as '3.1'."
    config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known_ids = {*fact_ids()}
    unknown = [f"{item.nodeid} names {fact_id}" for item in items for fact_id in named_by(item) - known_ids]
    if unknown:
        raise pytest.UsageError(f"Unknown id of a fact, see docs/invariants.md: {', '.join(sorted(unknown))}")
