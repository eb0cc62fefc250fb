"""The error about a commit that does not count, and the settings of a commit."""

import json
from pathlib import Path

import pytest

from lakehouse.errors import ConflictError
from lakehouse.ledger.commits import Commit, Kind
from lakehouse.storage import spark_writer
from lakehouse.storage.layout import Layout
from lakehouse_tests.helpers.tables.logs import NAME, WrittenTable


@pytest.mark.invariant("1.13")
def test_a_commit_planned_before_a_restore_is_not_blamed_only_on_another_writer(tmp_path: Path) -> None:
    table = WrittenTable.create(tmp_path / "t")
    table.batches(2)
    planned_version = table._next("batch").table_version
    table.restore(1)
    table.merge(7)

    def plan_before_restore(info: dict[str, str]) -> dict[str, str]:
        return info | {
            "userMetadata": json.dumps(json.loads(info["userMetadata"]) | {"table_version": planned_version})
        }

    table.edit(4, plan_before_restore)
    commit = Commit.model_validate_json(table.table.history(1)[0]["userMetadata"])
    assert table.ledger.undone_numbers == {2, 3} and table.rows == [7, 1000]
    with pytest.raises(ConflictError, match="Commit 3 of t does not count: another writer made it, or .*RESTORE"):
        spark_writer._require_committed(Layout(NAME, str(table.folder), "", ()), commit)


@pytest.mark.invariant("7.3")
@pytest.mark.parametrize(
    ("kind", "is_proof"),
    [("batch", True), ("base", True), ("replay", True), ("redrive", True), ("rejected", False), ("load", False)],
)
def test_delta_has_to_check_its_counts_if_the_ledger_relies_on_them(kind: Kind, is_proof: bool) -> None:
    """In other cases Delta may not count the source: if Spark joins without generated code and no row matches."""
    settings = spark_writer._fence("t", Commit(kind=kind, number=1, attempt="a", table_version=0))
    assert ("spark.databricks.delta.commandInvariantChecksThrow" in settings) == is_proof
