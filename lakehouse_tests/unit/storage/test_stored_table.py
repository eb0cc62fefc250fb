"""A stored table: how often its ledger is read, and who writes rows; Spark and deltalake stand aside."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.decoding.staged import STALE
from lakehouse.errors import ConflictError, LedgerError, LockedError, TableError
from lakehouse.ledger import ledger as ledgers
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.storage import stored_table
from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.layout import Layout
from lakehouse.storage.merge_spec import MergeSpec
from lakehouse.storage.stored_table import Expected, StoredTable
from lakehouse.storage.table_context import again
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, made, next_commit, rows

pytestmark = pytest.mark.invariant(11)

NO_SPARK: Any = None
COMMIT = Commit(kind="batch", number=1, attempt="a", table_version=4)


@pytest.fixture
def table(tmp_path: Path) -> StoredTable:
    return StoredTable(NO_SPARK, made(tmp_path, PARIS, **Layout("t", "", "", ()).lasting))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose ledger is asked for, each time."""
    asked: list[str] = []
    real = ledgers.read_ledger

    def read(uri: str, name: str, *, whole: bool = False) -> Ledger:
        asked.append(name)
        return real(uri, name, whole=whole)

    for module in (
        "ledger.ledger",
        "storage.schema_change.diff",
        "storage.schema_change.rewrite",
        "storage.stored_table",
    ):
        monkeypatch.setattr(f"lakehouse.{module}.read_ledger", read)
    return asked


def append(table: StoredTable) -> None:
    """What another writer commits."""
    append_quickly(table.layout, rows(OSLO), next_commit(table.layout, "derived"))


def test_the_ledger_of_a_table_as_its_layout_says_is_read_once(table: StoredTable, reads: list[str]) -> None:
    ledger = table.ensured_ledger()
    assert reads == ["t"]
    assert ledger == read_ledger(table.layout.uri, "t") and ledger.exists


def test_the_ledger_of_a_table_that_was_changed_is_read_after_the_change(
    table: StoredTable, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def alter(_spark: Any, _layout: Any, statement: str) -> None:
        done.append(statement)
        append(table)

    monkeypatch.setattr("lakehouse.storage.schema_change.apply.upkeep", alter)
    longer = StoredTable(NO_SPARK, replace(table.layout, retention=2 * table.layout.retention))
    ledger = longer.ensured_ledger()
    assert len(done) == 1 and "deletedFileRetentionDuration" in done[0]
    assert (ledger.version, ledger.next_number) == (1, 2)
    assert reads == ["t", "t"]


def test_a_change_of_the_table_is_told_and_a_second_run_changes_nothing(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = StoredTable(NO_SPARK, replace(table.layout, retention=2 * table.layout.retention))
    monkeypatch.setattr("lakehouse.storage.schema_change.apply.upkeep", lambda *_: append(table))
    assert longer.ensure() is True
    assert table.ensure() is False


def test_what_a_ledger_has_to_tell_is_required_whenever_it_is_read(table: StoredTable) -> None:
    def refuse(ledger: Ledger) -> Ledger:
        raise LedgerError(f"The log of version {ledger.version} tells no progress")

    merged = replace(table, require=refuse)
    for read in (merged.ledger, merged.ensured_ledger, lambda: merged.next_commit("batch", "test")):
        with pytest.raises(LedgerError, match="of version 0 tells no progress"):
            read()


def test_rows_are_compared_by_no_key_in_no_table(table: StoredTable) -> None:
    with pytest.raises(ValueError, match="has no key"):
        table.store_compared(lambda rows: rows, lambda rows: (rows, SPEC), COMMIT, FEW)


def test_rows_merged_into_all_partitions_are_few_where_those_of_all_partitions_are(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def is_quick(*given: Any, **named: Any) -> bool:
        asked.append((given[1:], named))
        return False

    monkeypatch.setattr(stored_table, "is_quick_to_merge", is_quick)
    monkeypatch.setattr(stored_table, "commit_merge", lambda *_: "Spark")
    assert table.merge_keyed(None, ["place"], "gone", COMMIT, Expected(2, 10, ["2024-01-01"])) == "Spark"  # type: ignore[arg-type, comparison-overlap]
    assert asked == [((2,), {"text": 10})]


def test_a_step_that_is_run_again_plans_on_the_ledger_as_it_is_then(table: StoredTable) -> None:
    planned: list[tuple[int, int]] = []

    def step() -> Commit:
        commit = table.ensured_ledger().next_commit("derived", "test")
        planned.append((commit.table_version, commit.number))
        if len(planned) == 1:
            append(table)
            raise ConflictError("another writer was first")
        return commit

    again(step)
    assert planned == [(0, 1), (1, 2)]


def test_what_a_restore_undid_leaves_no_row_in_a_table_with_a_key(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Ledger(table.layout.uri, exists=True, reread={"kafka:c/t": {0: 3}})
    monkeypatch.setattr(stored_table, "read_ledger", lambda *_, **__: told)
    monkeypatch.setattr(stored_table, "ensure_table", lambda *_: told)
    keyed = StoredTable(NO_SPARK, replace(table.layout, key=["place"]))
    assert table.ledger() is told and table.ensured_ledger() is told
    assert keyed.ledger().reread == keyed.ensured_ledger().reread == {}


class Writers:
    """The two writers, which only note what they are given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, held: pa.Table | None, error: Exception | None = None) -> None:
        self.wrote: list[tuple[str, Any]] = []

        def store(*given: Any) -> str:
            self.wrote.append(("deltalake", given[1:]))
            if error:
                raise error
            return "deltalake"

        def merge(*given: Any) -> str:
            self.wrote.append(("Spark", given[2:]))
            return "Spark"

        monkeypatch.setattr(stored_table, "is_quick_to_merge", lambda *_: True)
        monkeypatch.setattr(stored_table, "collected", lambda _: held)
        monkeypatch.setattr(stored_table, "read_rows", lambda *asked: f"rows of {asked[2:]}")
        monkeypatch.setattr(stored_table, "read_table", lambda *asked: f"rows of {asked[2:]}")
        monkeypatch.setattr(stored_table, "store_quickly", store)
        monkeypatch.setattr(stored_table, "commit_merge", merge)


def held(*stale: bool) -> pa.Table:
    return pa.table({STALE: list(stale)})


def compared(table: StoredTable, expected: Expected) -> tuple[Any, list[tuple[str, Any]]]:
    """Store compared rows; who stored them, and with which stored rows they were compared before."""
    seen: list[tuple[str, Any]] = []

    def few(stored: Any) -> Any:
        seen.append(("few", stored))

    def many(stored: Any) -> tuple[Any, MergeSpec]:
        seen.append(("many", stored))
        return "merged", SPEC

    keyed = StoredTable(NO_SPARK, replace(table.layout, key=["place"]))
    return keyed.store_compared(few, many, COMMIT, expected), seen


SPEC = MergeSpec("true")
FEW = Expected(2, 10, ["2024-01-01"])
AS_PLANNED = ("few", "rows of (4, ['2024-01-01'])")
NEWEST = ("many", "rows of (None,)")


def test_few_rows_are_stored_as_they_were_compared_with_the_version_planned_on(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = held(False, True)
    writers = Writers(monkeypatch, rows)
    assert compared(table, FEW) == ("deltalake", [AS_PLANNED])
    assert writers.wrote == [("deltalake", (rows, ["place"], ["2024-01-01"], COMMIT))]


def test_where_another_writer_was_first_spark_compares_few_rows_again(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = Writers(monkeypatch, held(False, True), ConflictError("another writer was first"))
    assert compared(table, FEW) == ("Spark", [AS_PLANNED, NEWEST])
    assert [who for who, _ in writers.wrote] == ["deltalake", "Spark"]
    assert writers.wrote[1] == ("Spark", ("merged", SPEC, COMMIT))


@pytest.mark.parametrize("error", [LockedError("it was never free"), TableError("the disk is full")])
def test_what_stops_one_writer_stops_the_other(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    writers = Writers(monkeypatch, held(False, True), error)
    with pytest.raises(type(error)):
        compared(table, FEW)
    assert [who for who, _ in writers.wrote] == ["deltalake"]


@pytest.mark.parametrize("rows", [None, held(True, True), held(False), held(False, False, False)])
def test_rows_too_large_all_stale_or_of_a_key_that_stands_twice_are_stored_by_spark(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch, rows: pa.Table | None
) -> None:
    writers = Writers(monkeypatch, rows)
    assert compared(table, FEW) == ("Spark", [AS_PLANNED, NEWEST])
    assert [who for who, _ in writers.wrote] == ["Spark"]


def test_rows_that_take_more_room_than_was_known_are_stored_by_spark(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_table, "MOST_HELD", 0)
    Writers(monkeypatch, held(False, True))
    assert compared(table, FEW) == ("Spark", [AS_PLANNED, NEWEST])


@pytest.mark.parametrize("nothing", [0, None])
def test_no_row_or_nobody_knows_how_many_is_for_spark_at_once(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch, nothing: int | None
) -> None:
    Writers(monkeypatch, held())
    assert compared(table, Expected(nothing)) == ("Spark", [NEWEST])
