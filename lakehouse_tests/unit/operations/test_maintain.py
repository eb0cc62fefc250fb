"""Maintenance beside other writers."""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import Column, Json, StreamTable
from lakehouse.errors import ConflictError, LakehouseError, LedgerError, TableError
from lakehouse.ledger.ledger import Ledger
from lakehouse.operations import maintain
from lakehouse.operations.layouts import layouts_of
from lakehouse.operations.maintain import Maintained
from lakehouse.settings import Settings
from lakehouse.storage import stored_table
from lakehouse.storage.layout import Layout
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.tables.logs import NAME, Written


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

    monkeypatch.setattr(stored_table, "upkeep", upkeep)
    spark: Any = None
    work = maintain._Work(StoredTable(spark, Layout(NAME, str(table.folder), "", ())), "cli")
    work._vacuum(0)
    assert done == [f"VACUUM delta.`{table.folder}`"] * 2


ID = Column("id", "INT", "Which.", required=True)


@pytest.fixture
def contexts(tmp_path: Path) -> list[TableContext]:
    """Two declarations, of which each table is there."""
    settings, spark = Settings(home=tmp_path, _env_file=None), None
    tables = [StreamTable(name, name, "", [ID], ["id"], format=Json()) for name in ("orders", "visits")]
    for table in tables:
        for layout in layouts_of(settings, table):
            Written.create(Path(layout.uri))
    return [TableContext(spark, settings, table) for table in tables]  # type: ignore[arg-type]


def failing(monkeypatch: pytest.MonkeyPatch, **errors: Exception) -> None:
    """The work on tables of these names fails so."""

    def go(work: maintain._Work, _: Any) -> Maintained:
        name = work.stored.layout.name
        if name in errors:
            raise errors[name]
        return Maintained(name, 1, 2, 1)

    monkeypatch.setattr(maintain._Work, "go", go)
    monkeypatch.setattr(maintain, "_refresh", lambda _: {})


def test_what_the_ledger_of_a_merged_table_does_not_tell_is_carried_on_by_no_maintenance(
    contexts: list[TableContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: dict[str, StoredTable] = {}

    def go(work: maintain._Work, _: Any) -> Maintained:
        worked[work.stored.layout.name] = work.stored
        return Maintained(work.stored.layout.name, 1, 2, 1)

    monkeypatch.setattr(maintain._Work, "go", go)
    monkeypatch.setattr(maintain, "_refresh", lambda _: {})
    maintain.maintain(contexts[0])
    untold = Ledger("/t", exists=True, untold=3)
    assert worked["orders_rejected"].require(untold) is untold
    with pytest.raises(LedgerError, match="RESTORE in version 3"):
        worked["orders"].require(untold)


def test_a_table_that_fails_keeps_no_other_from_its_maintenance(
    contexts: list[TableContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = TableError("A file is missing")
    failing(monkeypatch, orders=damaged)
    done: list[Maintained] = []
    with pytest.raises(TableError) as told:
        maintain.maintain_all(contexts, done.append)
    assert told.value is damaged
    assert [one.name for one in done] == [
        "orders_rejected", "orders_changes", "visits", "visits_rejected", "visits_changes"
    ]  # fmt: skip


def test_of_several_that_fail_each_is_told_at_the_end(
    contexts: list[TableContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, orders=TableError("A file is missing"), visits_changes=ValueError("odd"))
    done: list[Maintained] = []
    with pytest.raises(LakehouseError, match=r"2 tables could not be maintained: A file is missing\. odd"):
        maintain.maintain_all(contexts, done.append)
    assert len(done) == 4


def test_a_table_whose_progress_nothing_tells_is_left_and_the_others_are_maintained(
    contexts: list[TableContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch)

    def untold(_: TableContext) -> dict[str, str]:
        raise LedgerError("No commit tells the progress")

    monkeypatch.setattr(maintain, "_refresh", untold)
    done: list[Maintained] = []
    with pytest.raises(LedgerError):
        maintain.maintain(contexts[0], done.append)
    assert [one.name for one in done] == ["orders_rejected", "orders_changes"]
