"""Statistics columns that are left out during a rewrite: the next run sets them again in any case."""

from collections.abc import Sequence
from typing import Any

import pytest

from lakehouse.storage import schema_change
from lakehouse.storage.layout import STATISTICS, Layout, TableColumn

RECORD = TableColumn.struct("_record", "d", [TableColumn("position", "BIGINT", "d")])
DAY, NOTE = TableColumn("day", "DATE", "d"), TableColumn("note", "STRING", "d")
FLAG, LIST = TableColumn("flag", "BOOLEAN", "d"), TableColumn("list", "ARRAY<INT>", "d")


def statistics_during_rewrite(monkeypatch: pytest.MonkeyPatch, layout: Layout, excluded_columns: Sequence[str]) -> str:
    """Return the statistics columns while the rows are written."""
    statements: list[str] = []
    monkeypatch.setattr(schema_change, "run_upkeep", lambda _spark, _layout, statement: statements.append(statement))
    spark: Any = None
    schema_change.restrict_statistics(spark, layout, excluded_columns)
    (statement,) = statements
    return statement.split("= '")[1].split("'")[0] if " SET " in statement else ""


@pytest.mark.parametrize(
    ("columns", "excluded_columns", "statistics"),
    [
        ([DAY, NOTE, RECORD], ["day"], "note"),
        ([DAY, FLAG, LIST, RECORD], ["day"], "_record"),
        ([DAY, NOTE, RECORD], ["day", "note"], "_record"),
        ([DAY, NOTE, RECORD], [], "day"),
    ],
)
def test_a_rewrite_that_is_killed_after_its_commit_leaves_statistics_that_the_next_run_corrects(
    monkeypatch: pytest.MonkeyPatch, columns: list[TableColumn], excluded_columns: list[str], statistics: str
) -> None:
    layout = Layout("t", "/t", "d", columns, statistics=["day"], change_data=True)
    assert statistics_during_rewrite(monkeypatch, layout, excluded_columns) == statistics
    corrections = layout.corrections(layout.properties | {STATISTICS: statistics})
    assert corrections == ({} if statistics == "day" else {STATISTICS: "day"})


def test_a_layout_without_statistics_columns_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout("t", "/t", "d", [FLAG, RECORD], statistics=["flag"])
    assert statistics_during_rewrite(monkeypatch, layout, []) == ""
