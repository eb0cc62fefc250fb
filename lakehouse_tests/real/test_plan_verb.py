"""``lakehouse plan`` with Spark: SQL of a wrong type is refused before anything is created."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakehouse.spark.sessions
from lakehouse_tests.helpers.commands import lakehouse_says

DECLARATION = """
from lakehouse import Check, Column, Measure, Rollup, StreamTable


def table(name, **changes):
    columns = [Column("id", "BIGINT", required=True, doc=""), Column("price", "DOUBLE", doc="")]
    return StreamTable(name, name, "", columns, key=["id"], **changes)


fits = table("fits", checks=[Check("priced", "price > 0", doc="")])
number = table("number", checks=[Check("priced", "price + 1", doc="")])
day = table("day", rollups=[Rollup("day_by_id", ["id"], {"rows": Measure("count(*)", "DATE", "")}, doc="")])
"""


@pytest.fixture
def tables(tmp_path: Path, spark: SparkSession) -> Iterator[Path]:
    """The folder for tables of a home; Spark accepts the SQL of one declaration and refuses that of two."""
    declarations = tmp_path / "sql_of_types"
    declarations.mkdir()
    (declarations / "priced.py").write_text(DECLARATION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_HOME", str(tmp_path))
        patch.setenv("LAKEHOUSE_DECLARATIONS", str(declarations))
        patch.setattr(lakehouse.spark.sessions, "build_session", lambda _: spark)
        patch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
        yield tmp_path / "tables"


def test_plan_refuses_sql_of_a_wrong_type_and_plan_quick_skips_it(tables: Path) -> None:
    result = lakehouse_says("plan", "--json")
    assert result.code == 1
    refused_changes = [change for change in json.loads(result.out)["changes"] if change["kind"] == "refuse"]
    assert [change["table"] for change in refused_changes] == ["day", "number"]
    assert "measure rows" in refused_changes[0]["detail"]
    assert "check priced" in refused_changes[1]["detail"]
    text_result = lakehouse_says("plan", "number")
    assert (text_result.code, "refuse" in text_result.out) == (1, True)
    assert lakehouse_says("plan", "fits").code == 0

    quick_result = lakehouse_says("plan", "--quick", "--json")
    assert quick_result.code == 0
    assert {change["kind"] for change in json.loads(quick_result.out)["changes"]} == {"create"}
    assert not tables.exists()
