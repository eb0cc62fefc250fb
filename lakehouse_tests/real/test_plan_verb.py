"""``lakehouse plan`` with Spark: types of SQL that do not fit are told before anything is made."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakehouse.spark.sessions
from lakehouse_tests.helpers.commands import lakehouse_says

pytestmark = pytest.mark.invariant(10)

DECLARED = """
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
    """Where the tables of a home would be: Spark takes the SQL of one declaration, and refuses that of two."""
    declared = tmp_path / "sql_of_types"
    declared.mkdir()
    (declared / "priced.py").write_text(DECLARED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_HOME", str(tmp_path))
        patch.setenv("LAKEHOUSE_DECLARATIONS", str(declared))
        patch.setattr(lakehouse.spark.sessions, "build_session", lambda _: spark)
        patch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
        yield tmp_path / "tables"


def test_sql_whose_types_spark_refuses_is_told_by_the_verb_and_passed_over_by_its_quick_form(tables: Path) -> None:
    said = lakehouse_says("plan", "--json")
    assert said.code == 1
    refused = [each for each in json.loads(said.out)["changes"] if each["kind"] == "refuse"]
    assert [each["table"] for each in refused] == ["day", "number"]
    assert "measure rows" in refused[0]["detail"]
    assert "check priced" in refused[1]["detail"]
    shown = lakehouse_says("plan", "number")
    assert (shown.code, "refuse" in shown.out) == (1, True)
    assert lakehouse_says("plan", "fits").code == 0

    quick = lakehouse_says("plan", "--quick", "--json")
    assert quick.code == 0
    assert {each["kind"] for each in json.loads(quick.out)["changes"]} == {"create"}
    assert not tables.exists()
