"""SQL in a declaration that returns the wrong type: the error names the expected type and a cast."""

import re
from collections.abc import Callable
from functools import partial

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Check, Column, Measure, Rollup, StreamTable
from lakehouse.errors import DeclarationError
from lakehouse.storage.sql_analysis import require_types

COLUMNS = [
    Column("id", "BIGINT", "Number.", required=True),
    Column("note", "STRING", "Words."),
    Column("sizes", "ARRAY<INT>", "Of its parts."),
]


def table_with_check(sql: str) -> StreamTable:
    return StreamTable("notes", "notes", "", COLUMNS, ["id"], checks=[Check("holds", sql, "")])


def table_with_measure(sql: str, type_: str) -> StreamTable:
    rollup = Rollup("by_id", ["id"], {"rows": Measure("count(*)", "BIGINT", ""), "figure": Measure(sql, type_, "")}, "")
    return StreamTable("notes", "notes", "", COLUMNS, ["id"], rollups=[rollup])


def refusal_advice(spark: SparkSession, table: StreamTable, part: str, type_: str) -> str:
    """The advice that follows the expected type in the error."""
    with pytest.raises(DeclarationError, match=f"Table 'notes': .*{part}") as refusal:
        require_types(spark, table)
    _, _, advice = str(refusal.value).partition(f"It must return {type_}: correct its SQL in the declaration")
    return advice


@pytest.mark.parametrize(
    ("declare", "sql", "part", "type_"),
    [
        (table_with_check, "note", "check holds: 'note' has type string", "BOOLEAN"),
        (partial(table_with_measure, type_="BOOLEAN"), "bool_and(id)", "measure figure: ", "BOOLEAN"),
    ],
)
def test_the_advised_cast_can_be_declared(
    spark: SparkSession, declare: Callable[[str], StreamTable], sql: str, part: str, type_: str
) -> None:
    advice = refusal_advice(spark, declare(sql), part, type_)
    cast = advice.removeprefix("; write a cast as ").removesuffix(".")
    column = re.findall(r"\w+", cast)[1]
    require_types(spark, declare(sql.replace(column, cast)))


@pytest.mark.parametrize(
    ("table", "part", "type_"),
    [
        (table_with_check("sizes > 5"), "check holds: ", "BOOLEAN"),
        (table_with_measure("min(sizes)", "BIGINT"), "measure figure: ", "BIGINT"),
        (table_with_measure("max(id)", "DATE"), "measure figure: ", "DATE"),
    ],
)
def test_a_cast_that_spark_refuses_is_not_advised(
    spark: SparkSession, table: StreamTable, part: str, type_: str
) -> None:
    assert refusal_advice(spark, table, part, type_) == "."


def test_sql_whose_types_fit_passes(spark: SparkSession) -> None:
    require_types(spark, table_with_check("CAST(note AS BOOLEAN)"))
    require_types(spark, table_with_measure("max(size(sizes))", "BIGINT"))


@pytest.mark.parametrize(
    "sql",
    [
        *(
            "sum(coalesce(note, '0'))",
            "sum(trim(note))",
            "avg(coalesce(id, 0))",
            "sum(CASE WHEN id > 1.5 THEN note END)",
        ),
        "try_sum(id / if(id > 1.5, id, 2))",
    ],
)
def test_a_sum_of_doubles_is_refused_in_every_form(spark: SparkSession, sql: str) -> None:
    with pytest.raises(DeclarationError, match="figure: a sum or mean of .* depends on the order of its rows.*Add dec"):
        require_types(spark, table_with_measure(sql, "BIGINT"))
    require_types(spark, table_with_measure("sum(coalesce(id, 0)) + sum(DISTINCT size(sizes))", "BIGINT"))
