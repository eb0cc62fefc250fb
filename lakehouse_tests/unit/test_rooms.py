"""What one module alone decides, no other asks."""

import re

from lakehouse_tests.helpers.places import ROOT

SOURCES = sorted((ROOT / "lakehouse").rglob("*.py"))


def asking(pattern: str) -> set[str]:
    """The modules whose code holds this pattern."""
    found = re.compile(pattern)
    return {str(file.relative_to(ROOT / "lakehouse")) for file in SOURCES if found.search(file.read_text("utf-8"))}


def test_the_store_alone_tells_a_path_from_an_address() -> None:
    assert asking(r"""["'](://|file://)["']""") == {"settings/store.py"}
