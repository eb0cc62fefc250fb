"""What one module alone decides, no other asks."""

import re

from lakehouse_tests.helpers.places import ROOT

SOURCES = sorted((ROOT / "lakehouse").rglob("*.py"))


def asking(pattern: str) -> set[str]:
    """The modules whose code holds this pattern."""
    found = re.compile(pattern)
    return {str(file.relative_to(ROOT / "lakehouse")) for file in SOURCES if found.search(file.read_text("utf-8"))}


def test_the_store_alone_tells_a_path_from_an_address() -> None:
    assert asking(r"""["'](://|file:/*)["']""") == {"settings/store.py"}


def test_the_text_of_a_merge_is_made_in_one_place() -> None:
    assert asking(r"WHEN (NOT )?MATCHED") == {"delta/merge_spec.py"}


def test_who_writes_rows_is_decided_in_one_place() -> None:
    assert asking(r"\bis_quick(_to_merge)?\(") == {"delta/plain.py", "delta/stored_table.py"}


def test_steps_make_read_and_write_tables_through_the_stored_table_alone() -> None:
    made = r"\b(ensure_table|read_table|read_rows|append_quickly|merge_quickly|store_quickly|upkeep)\("
    committed = r"\bcommit_(merge|append|otherwise|overwrite)\("
    found = asking(f"(?<![.])({made}|{committed})")
    assert "delta/stored_table.py" in found
    assert [file for file in found if not file.startswith("delta/")] == []
