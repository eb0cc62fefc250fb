"""SQL of a declaration whose types Spark refuses: which type is expected, and how one is made of another."""

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Check, Column, Measure, Rollup, StreamTable
from lakehouse.delta.analysis import require_types
from lakehouse.errors import DeclarationError

COLUMNS = [
    Column("id", "BIGINT", "Number.", required=True),
    Column("note", "STRING", "Words."),
    Column("sizes", "ARRAY<INT>", "Of its parts."),
]


def checked(sql: str) -> StreamTable:
    return StreamTable("notes", "notes", "", COLUMNS, ["id"], checks=[Check("holds", sql, "")])


def measured(sql: str, type_: str) -> StreamTable:
    rollup = Rollup("by_id", ["id"], {"rows": Measure("count(*)", "BIGINT", ""), "figure": Measure(sql, type_, "")}, "")
    return StreamTable("notes", "notes", "", COLUMNS, ["id"], rollups=[rollup])


@pytest.mark.parametrize(
    ("table", "part", "action"),
    [
        (checked("note"), "check holds: 'note' gives string", "give BOOLEAN: .* written as CAST\\(note AS BOOLEAN\\)"),
        (checked("sizes > 5"), "check holds: ", "give BOOLEAN: .* written as CAST\\(sizes AS BOOLEAN\\)"),
        (measured("min(sizes)", "BIGINT"), "measure figure: ", "give BIGINT: .* written as CAST\\(sizes AS BIGINT\\)"),
        (measured("bool_and(sizes)", "BOOLEAN"), "measure figure: ", "give BOOLEAN: .* AS BOOLEAN\\)"),
    ],
)
def test_the_type_that_a_part_has_to_give_is_named_with_a_cast_to_it(
    spark: SparkSession, table: StreamTable, part: str, action: str
) -> None:
    with pytest.raises(DeclarationError, match=f"Table 'notes': .*{part}.*It has to {action}"):
        require_types(spark, table)


def test_sql_whose_types_fit_passes(spark: SparkSession) -> None:
    require_types(spark, checked("CAST(note AS BOOLEAN)"))
    require_types(spark, measured("max(size(sizes))", "BIGINT"))


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
def test_what_is_added_as_doubles_is_refused_however_it_is_made(spark: SparkSession, sql: str) -> None:
    with pytest.raises(DeclarationError, match="figure: a sum or mean of .* depends on the order of its rows.*Add dec"):
        require_types(spark, measured(sql, "BIGINT"))
    require_types(spark, measured("sum(coalesce(id, 0)) + sum(DISTINCT size(sizes))", "BIGINT"))
