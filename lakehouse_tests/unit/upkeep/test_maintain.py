"""Maintenance beside other writers."""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.delta.layout import Layout
from lakehouse.errors import ConflictError
from lakehouse.upkeep import maintain
from lakehouse_tests.helpers.logs import NAME, Written


@pytest.mark.invariant(11)
def test_a_vacuum_that_another_writer_kept_from_the_table_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Written.create(tmp_path / "t")
    done: list[str] = []

    def upkeep(_spark: Any, layout: Layout, statement: str, _run: str) -> None:
        done.append(statement)
        if len(done) == 1:
            raise ConflictError("Another process has been writing t", where=layout.uri)
        table.table.vacuum(dry_run=False)

    monkeypatch.setattr(maintain, "upkeep", upkeep)
    spark: Any = None
    work = maintain._Work(spark, Layout(NAME, str(table.folder), "", ()), "cli")
    work._vacuum(0)
    assert done == [f"VACUUM delta.`{table.folder}`"] * 2
