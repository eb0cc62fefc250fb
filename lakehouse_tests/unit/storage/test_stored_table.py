"""A stored table: how often its ledger is read, and which writer is chosen; Spark and deltalake are replaced."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.decoding.staged import STALE
from lakehouse.errors import ConflictError, LedgerError, LockedError, TableError
from lakehouse.ledger import ledger as ledgers
from lakehouse.ledger.commits import Commit, Kind, Metrics
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.storage import stored_table
from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.layout import Layout
from lakehouse.storage.merge_spec import MergeSpec
from lakehouse.storage.stored_table import ComparedRows, ExpectedRows, StoredTable
from lakehouse.storage.table_context import retry_on_conflict
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, create_table, next_commit, rows

NO_SPARK: Any = None
COMMIT = Commit(kind="batch", number=1, attempt="a", table_version=4)


@pytest.fixture
def table(tmp_path: Path) -> StoredTable:
    return StoredTable(NO_SPARK, create_table(tmp_path, PARIS, **Layout("t", "", "", ()).enforced_properties))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables whose ledger is read, once per read."""
    names: list[str] = []
    read_real_ledger = ledgers.read_ledger

    def read(uri: str, name: str, *, whole: bool = False) -> Ledger:
        names.append(name)
        return read_real_ledger(uri, name, whole=whole)

    for module in (
        "ledger.ledger",
        "storage.schema_diff",
        "storage.schema_change",
        "storage.stored_table",
    ):
        monkeypatch.setattr(f"lakehouse.{module}.read_ledger", read)
    return names


def append(table: StoredTable) -> None:
    """Commit rows as another writer."""
    append_quickly(table.layout, rows(OSLO), next_commit(table.layout, "derived"))


def test_the_ledger_of_a_table_that_fits_its_layout_is_read_once(table: StoredTable, reads: list[str]) -> None:
    ledger = table.ensured_ledger()
    assert reads == ["t"]
    assert ledger == read_ledger(table.layout.uri, "t") and ledger.exists


def test_the_ledger_of_a_table_that_was_changed_is_read_after_the_change(
    table: StoredTable, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []

    def alter(_spark: Any, _layout: Any, statement: str) -> None:
        statements.append(statement)
        append(table)

    monkeypatch.setattr("lakehouse.storage.schema_change.run_upkeep", alter)
    changed_table = StoredTable(NO_SPARK, replace(table.layout, retention=2 * table.layout.retention))
    ledger = changed_table.ensured_ledger()
    assert len(statements) == 1 and "deletedFileRetentionDuration" in statements[0]
    assert (ledger.version, ledger.next_number) == (1, 2)
    assert reads == ["t", "t"]


def test_a_change_of_the_table_is_reported_and_a_second_run_changes_nothing(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed_table = StoredTable(NO_SPARK, replace(table.layout, retention=2 * table.layout.retention))
    monkeypatch.setattr("lakehouse.storage.schema_change.run_upkeep", lambda *_: append(table))
    assert changed_table.ensure() is True
    assert table.ensure() is False


def test_every_ledger_that_is_read_is_checked(table: StoredTable) -> None:
    def refuse(ledger: Ledger) -> Ledger:
        raise LedgerError(f"The log of version {ledger.version} has no progress")

    merged = replace(table, require=refuse)
    for read in (merged.ledger, merged.ensured_ledger, lambda: merged.next_commit("batch", "test")):
        with pytest.raises(LedgerError, match="of version 0 has no progress"):
            read()


def test_rows_of_a_table_without_a_key_cannot_be_compared(table: StoredTable) -> None:
    with pytest.raises(ValueError, match="has no key"):
        table.write_compared(Compared(), COMMIT, FEW_ROWS)


def test_the_eligibility_of_a_merge_by_other_columns_does_not_depend_on_partitions(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def can_merge_quickly(*arguments: Any, **keywords: Any) -> bool:
        calls.append((arguments[1:], keywords))
        return False

    monkeypatch.setattr(stored_table, "can_merge_quickly", can_merge_quickly)
    monkeypatch.setattr(stored_table, "commit_merge", lambda *_: "Spark")
    assert table.upsert(None, ["place"], "gone", COMMIT, ExpectedRows(2, 10, ["2024-01-01"])) == "Spark"  # type: ignore[arg-type, comparison-overlap]
    assert calls == [((2,), {"text": 10})]


@pytest.mark.invariant("11.1")
def test_a_repeated_step_plans_on_the_current_ledger(table: StoredTable) -> None:
    plans: list[tuple[int, int]] = []

    def step() -> Commit:
        commit = table.ensured_ledger().next_commit("derived", "test")
        plans.append((commit.table_version, commit.number))
        if len(plans) == 1:
            append(table)
            raise ConflictError("another writer was first")
        return commit

    retry_on_conflict(step)
    assert plans == [(0, 1), (1, 2)]


def test_a_table_with_a_key_reads_nothing_again_after_a_restore(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(table.layout.uri, exists=True, undone_ends={"kafka:c/t": {0: 3}})
    monkeypatch.setattr(stored_table, "read_ledger", lambda *_, **__: ledger)
    monkeypatch.setattr(stored_table, "ensure_table", lambda *_: ledger)
    keyed_table = StoredTable(NO_SPARK, replace(table.layout, key=["place"]))
    assert table.ledger() is ledger and table.ensured_ledger() is ledger
    assert keyed_table.ledger().undone_ends == keyed_table.ensured_ledger().undone_ends == {}


class Writers:
    """Stubs of the two writers that record their arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rows: pa.Table | None, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []

        def store(*arguments: Any) -> str:
            self.calls.append(("deltalake", arguments[1:]))
            if error:
                raise error
            return "deltalake"

        def merge(*arguments: Any) -> str:
            self.calls.append(("Spark", arguments[2:]))
            return "Spark"

        monkeypatch.setattr(stored_table, "can_merge_quickly", lambda *_: True)
        monkeypatch.setattr(stored_table, "collect_rows", lambda _: rows)
        monkeypatch.setattr(stored_table, "read_rows", lambda *arguments: f"rows of {arguments[2:]}")
        monkeypatch.setattr(stored_table, "read_table", lambda *arguments: f"rows of {arguments[2:]}")
        monkeypatch.setattr(stored_table, "write_quickly", store)
        monkeypatch.setattr(stored_table, "commit_merge", merge)


def compared_rows(*stale: bool) -> pa.Table:
    return pa.table({STALE: list(stale)})


@dataclass
class Compared:
    """A comparison that notes the stored rows it was given."""

    calls: list[tuple[str, Any]] = field(default_factory=list)

    def compare_few(self, stored_rows: Any) -> Any:
        self.calls.append(("few", stored_rows))

    def compare_many(self, stored_rows: Any) -> ComparedRows:
        self.calls.append(("many", stored_rows))
        return ComparedRows("merged", SPEC, {})  # type: ignore[arg-type]

    def before_commit(self, _: Any, commit: Commit) -> Commit:
        return commit


def write_compared(table: StoredTable, expected: ExpectedRows) -> tuple[Any, list[tuple[str, Any]]]:
    """Write compared rows; return which writer wrote them, and the stored rows of each comparison."""
    comparison = Compared()
    keyed_table = StoredTable(NO_SPARK, replace(table.layout, key=["place"]))
    return keyed_table.write_compared(comparison, COMMIT, expected), comparison.calls


SPEC = MergeSpec("true")
FEW_ROWS = ExpectedRows(2, 10, ["2024-01-01"])
AS_PLANNED = ("few", "rows of (4, ['2024-01-01'])")
NEWEST = ("many", "rows of (None,)")


@pytest.mark.invariant("3.2", "7.4")
def test_few_rows_are_compared_with_the_planned_version_and_stored(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = compared_rows(False, True)
    writers = Writers(monkeypatch, rows)
    assert write_compared(table, FEW_ROWS) == ("deltalake", [AS_PLANNED])
    assert writers.calls == [("deltalake", (rows, ["place"], ["2024-01-01"], COMMIT))]


@pytest.mark.invariant("3.2")
def test_spark_compares_few_rows_again_if_another_writer_was_first(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = Writers(monkeypatch, compared_rows(False, True), ConflictError("another writer was first"))
    assert write_compared(table, FEW_ROWS) == ("Spark", [AS_PLANNED, NEWEST])
    assert [writer for writer, _ in writers.calls] == ["deltalake", "Spark"]
    assert writers.calls[1] == ("Spark", ("merged", SPEC, COMMIT))


@pytest.mark.parametrize("error", [LockedError("it is locked"), TableError("the disk is full")])
def test_an_error_of_one_writer_is_not_retried_with_the_other(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    writers = Writers(monkeypatch, compared_rows(False, True), error)
    with pytest.raises(type(error)):
        write_compared(table, FEW_ROWS)
    assert [writer for writer, _ in writers.calls] == ["deltalake"]


@pytest.mark.parametrize(
    "rows", [None, compared_rows(True, True), compared_rows(False), compared_rows(False, False, False)]
)
def test_spark_stores_rows_that_are_too_large_all_stale_or_have_duplicate_keys(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch, rows: pa.Table | None
) -> None:
    writers = Writers(monkeypatch, rows)
    assert write_compared(table, FEW_ROWS) == ("Spark", [AS_PLANNED, NEWEST])
    assert [writer for writer, _ in writers.calls] == ["Spark"]


def test_spark_stores_rows_that_need_more_memory_than_expected(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_table, "MOST_MEMORY", 0)
    Writers(monkeypatch, compared_rows(False, True))
    assert write_compared(table, FEW_ROWS) == ("Spark", [AS_PLANNED, NEWEST])


@pytest.mark.parametrize("count", [0, None])
def test_spark_stores_no_rows_and_an_unknown_number_of_rows(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch, count: int | None
) -> None:
    Writers(monkeypatch, compared_rows())
    assert write_compared(table, ExpectedRows(count)) == ("Spark", [NEWEST])


@pytest.mark.parametrize("kind", ["maintenance", "gap", "start", "purge", "acceptance", "wait", "batch", "replay"])
def test_a_commit_without_rows_needs_no_spark(table: StoredTable, kind: Kind) -> None:
    entry = table.commit_nothing(next_commit(table.layout, kind))
    (newest, *_) = read_ledger(table.layout.uri, "t").entries
    assert (newest, newest.commit.kind, newest.metrics) == (entry, kind, Metrics())
    assert DeltaTable(table.layout.uri).to_pyarrow_table().num_rows == 1


def test_spark_commits_no_rows_after_a_commit_of_another_program(
    table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = next_commit(table.layout, "maintenance")
    append(table)
    rows_of_table = SimpleNamespace(where=lambda _: SimpleNamespace(columns=["place"]))
    monkeypatch.setattr(stored_table, "read_table", lambda *_: rows_of_table)
    monkeypatch.setattr(stored_table, "commit_merge", lambda *arguments: arguments[4])
    committed: Any = table.commit_nothing(commit)
    assert committed == commit
