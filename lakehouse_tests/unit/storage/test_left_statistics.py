"""Statistics that are left while rows are written in another form: the next run names them again, whatever came."""

from collections.abc import Sequence
from typing import Any

import pytest

from lakehouse.storage.layout import STATISTICS, Layout, TableColumn
from lakehouse.storage.schema_change import rewrite

pytestmark = pytest.mark.invariant(1)
RECORD = TableColumn.struct("_record", "d", [TableColumn("position", "BIGINT", "d")])
DAY, NOTE = TableColumn("day", "DATE", "d"), TableColumn("note", "STRING", "d")
FLAG, LIST = TableColumn("flag", "BOOLEAN", "d"), TableColumn("list", "ARRAY<INT>", "d")


def left(monkeypatch: pytest.MonkeyPatch, layout: Layout, but: Sequence[str]) -> str:
    """The columns that are named while the rows are written."""
    statements: list[str] = []
    monkeypatch.setattr(rewrite, "upkeep", lambda _spark, _layout, statement: statements.append(statement))
    spark: Any = None
    rewrite.leave_statistics(spark, layout, but)
    (said,) = statements
    return said.split("= '")[1].split("'")[0] if " SET " in said else ""


@pytest.mark.parametrize(
    ("columns", "but", "named"),
    [
        ([DAY, NOTE, RECORD], ["day"], "note"),
        ([DAY, FLAG, LIST, RECORD], ["day"], "_record"),
        ([DAY, NOTE, RECORD], ["day", "note"], "_record"),
        ([DAY, NOTE, RECORD], [], "day"),
    ],
)
def test_a_rewrite_that_is_killed_after_its_commit_leaves_statistics_that_the_next_run_corrects(
    monkeypatch: pytest.MonkeyPatch, columns: list[TableColumn], but: list[str], named: str
) -> None:
    layout = Layout("t", "/t", "d", columns, statistics=["day"], change_data=True)
    assert left(monkeypatch, layout, but) == named
    corrected = layout.corrections(layout.properties | {STATISTICS: named})
    assert corrected == ({} if named == "day" else {STATISTICS: "day"})


def test_where_a_layout_names_none_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout("t", "/t", "d", [FLAG, RECORD], statistics=["flag"])
    assert left(monkeypatch, layout, []) == ""
