"""A statement that Spark reports as done has made its commit, or there is an error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.errors import TableError
from lakehouse.ledger.commits import Upkeep
from lakehouse.storage import spark_writer
from lakehouse.storage.layout import Layout
from lakehouse.storage.spark_writer import run_restore, run_upkeep

NO_SPARK: Any = None
ALTER = "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A table with three versions."""
    layout = Layout("t", str(tmp_path / "t"), "d", ())
    for _ in range(3):
        write_deltalake(layout.uri, pa.table({"id": [1]}), mode="append")
    return layout


def spark_does(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    monkeypatch.setattr(spark_writer, "run_statement", lambda *_: work())


def alter(layout: Layout, metadata: dict[str, str]) -> None:
    properties = CommitProperties(custom_metadata=metadata)
    DeltaTable(layout.uri).alter.set_table_properties({"delta.appendOnly": "false"}, commit_properties=properties)


def test_a_statement_without_its_commit_is_an_error(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign_works = [lambda: None, lambda: write_deltalake(layout.uri, pa.table({"id": [2]}), mode="append")]
    for work in foreign_works:
        spark_does(monkeypatch, work)
        with pytest.raises(TableError, match="Spark reported success, but made no commit in t"):
            run_restore(NO_SPARK, layout, 0)
        with pytest.raises(TableError, match="Spark reported success, but made no commit in t"):
            run_upkeep(NO_SPARK, layout, ALTER)


def test_a_restore_of_another_version_does_not_count(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_does(monkeypatch, lambda: DeltaTable(layout.uri).restore(1))
    with pytest.raises(TableError):
        run_restore(NO_SPARK, layout, 0)


def test_a_statement_with_its_commit_counts(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_does(monkeypatch, lambda: DeltaTable(layout.uri).restore(0))
    run_restore(NO_SPARK, layout, 0)
    spark_does(monkeypatch, lambda: alter(layout, {"userMetadata": Upkeep(run="r").model_dump_json()}))
    run_upkeep(NO_SPARK, layout, ALTER)
    assert DeltaTable(layout.uri).version() == 4


def test_maintenance_without_anything_to_do_makes_no_commit(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_does(monkeypatch, lambda: None)
    for statement in (f"OPTIMIZE {layout.sql}", f"VACUUM {layout.sql}"):
        run_upkeep(NO_SPARK, layout, statement)
