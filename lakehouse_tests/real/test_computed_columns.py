"""Computed columns: exact for all records."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from math import isfinite
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lakehouse.declaration import Column, Computed, Measure, Rollup, StreamTable, Time, Value
from lakehouse.declaration.sql import computed_sql
from lakehouse.operations.verify import verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.expressions import BENIGN, KINDS, ROWS, TYPES, expression
from lakehouse_tests.helpers.tables.tables import redeclare


def failing_expressions(rows: DataFrame, expressions: Sequence[str]) -> list[str]:
    """The expressions that fail, each computed alone."""
    failures = []
    for sql in expressions:
        try:
            rows.selectExpr(sql).toArrow()
        except Exception as error:
            failures.append(f"{sql}: {str(error)[:200]}")
    return failures


@pytest.mark.parametrize("seed", range(4))
def test_no_accepted_expression_fails_on_any_record(spark, seed: int) -> None:
    random = Random(seed)
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    rows = spark.createDataFrame(ROWS, columns).localCheckpoint()
    expressions = []
    for number in range(120):
        type_, kind = list(KINDS.items())[number % len(KINDS)]
        expressions.append(computed_sql(expression(random, kind), type_, TYPES))
    try:
        computed_table = rows.selectExpr(*(f"{sql} AS c{number}" for number, sql in enumerate(expressions))).toArrow()
    except Exception:
        assert failing_expressions(rows, expressions) == []
        raise
    values = [value for column in computed_table.columns for value in column.to_pylist() if value is not None]
    assert all(isfinite(value) for value in values if isinstance(value, float))
    assert all(1 <= value.year <= 9999 for value in values if isinstance(value, date))
    assert len(values) > len(expressions)


def test_a_text_with_a_huge_exponent_is_not_a_decimal(spark) -> None:
    """Spark computes every digit of such a number, for hours or until it fails."""
    invalid_texts = (
        "1e-999999999",
        "1e-20000000",
        "1e999999999",
        "1" * 5_000,
        f"1e-1{chr(0x669) * 9}",
        "1e-999999999 ",
    )
    valid_texts = {"1e-3": "0.00", " 12.345": "12.35", "5E+0002 ": "500.00", "-7": "-7.00", "0" * 999 + "9": "9.00"}
    rows = spark.createDataFrame(
        [(text,) for text in (*invalid_texts, *valid_texts, None, "e", "")], "t STRING"
    ).localCheckpoint()
    sql = computed_sql("CAST(t AS DECIMAL(9,2))", "DECIMAL(9,2)", TYPES)
    decimals = {row[0]: row[1] for row in rows.selectExpr("t", f"{sql} AS d").collect()}
    assert decimals == dict.fromkeys((*invalid_texts, None, "e", "")) | {
        text: Decimal(d) for text, d in valid_texts.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_computed_values_equal_those_that_spark_computes_from_the_declared_sql(spark, seed: int) -> None:
    random = Random(1000 + seed)
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    rows = spark.createDataFrame(BENIGN, columns).localCheckpoint()
    cases = []
    for number in range(90):
        type_, kind = list(KINDS.items())[number % len(KINDS)]
        sql = expression(random, kind, 2)
        try:
            expected = rows.selectExpr(f"CAST(({sql}) AS {type_}) AS c").toArrow().column(0).to_pylist()
        except PySparkException:  # it fails on some row, or compares only with NULL
            continue
        cases.append((sql, computed_sql(sql, type_, TYPES), expected))
    table = rows.selectExpr(
        *(f"{computed_expression} AS c{number}" for number, (_, computed_expression, _) in enumerate(cases))
    ).toArrow()
    assert len(cases) > 45
    for (sql, computed_expression, expected), column in zip(cases, table.columns, strict=True):
        finite = [None if isinstance(value, float) and not isfinite(value) else value for value in expected]
        assert column.to_pylist() == finite, f"{sql}: {computed_expression}"


def orders(*extra_columns: Column | Computed, **changes: Any) -> StreamTable:
    name = f"orders_{uuid4().hex[:8]}"
    columns = [
        Column("id", "BIGINT", required=True, doc="Number."),
        Column("sold_at", "TIMESTAMP", written=Time(epoch="seconds"), doc="When."),
        Column("pieces", "INT", doc="How many."),
        Column("note", "STRING", doc="Note."),
        *extra_columns,
    ]
    rollup = Rollup(
        f"{name}_by_size", by=["size"], measures={"rows": Measure("count(*)", "BIGINT", "")}, doc="By size."
    )
    arguments: dict[str, Any] = dict(key=["id"], rollups=[rollup])
    return redeclare(StreamTable(name, name, "Orders.", columns, **(arguments | changes)), partitions=1)


SIZE = Computed("size", "STRING", sql="CASE WHEN pieces > 99 THEN 'large' ELSE 'small' END", doc="In words.")
SOLD_ON = Computed("sold_on", "DATE", sql="CAST(sold_at AS DATE)", doc="Day.")
PER_PIECE = Computed("per_piece", "INT", sql="CAST(1000 / pieces AS INT)", doc="Of a thousand.")
NUMBER = Computed("number", "INT", sql="CAST(note AS INT)", doc="The note, if it is a number.")


def order(number: int, **fields: Any) -> bytes:
    return json.dumps({"id": number, **fields}).encode()


@pytest.mark.invariant("4.6")
@pytest.mark.slow
def test_computed_columns_follow_their_sources_and_move_rows_between_partitions(spark, broker) -> None:
    stream = Stream.of(spark, broker, orders(SIZE, SOLD_ON, PER_PIECE, NUMBER, partition_by=Value("sold_on")))
    (first,) = stream.send_and_merge(
        order(1, sold_at=86_399, pieces=100, note="12"),
        order(2, sold_at=86_400, pieces=0, note="twelve"),
        order(3),
        order(4, pieces="many"),
    )
    assert counts(first.entry) == dict(read=4, rejected=1, superseded=0, inserted=3, updated=0, stale=0)
    columns = "id, CAST(sold_on AS STRING), size, per_piece, number"
    assert stream.sql(f"SELECT {columns} FROM {{t}} ORDER BY id") == [
        (1, "1970-01-01", "large", 10, 12),
        (2, "1970-01-02", "small", None, None),
        (3, None, "small", None, None),
    ]
    stream.refresh()
    (second,) = stream.send_and_merge(order(1, sold_at=86_401, pieces=3), order(2, sold_at=0, pieces=2**31 - 1))
    assert counts(second.entry) == dict(read=2, rejected=0, superseded=0, inserted=0, updated=2, stale=0)
    assert stream.sql(f"SELECT {columns} FROM {{t}} ORDER BY id") == [
        (1, "1970-01-02", "small", 333, None),
        (2, "1970-01-01", "large", 0, None),
        (3, None, "small", None, None),
    ]
    stream.refresh()
    before = stream.snapshot_of("id")
    stream.replay()
    assert stream.snapshot_of("id") == before
    assert sorted(stream.sql("SELECT * FROM {rollup}")) == [("large", 1), ("small", 2)]
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    stream.assert_accounted()


@pytest.mark.slow
def test_a_computed_column_added_later_is_null_in_existing_rows(spark, broker) -> None:
    table = orders(SIZE)
    stream = Stream.of(spark, broker, table)
    stream.send_and_merge(order(1, pieces=1), order(2, pieces=2))
    wider_table = replace(table, columns=[*table.columns, PER_PIECE])
    stream = Stream(spark, broker, wider_table)
    stream.send_and_merge(order(2, pieces=4))
    stream.replay()
    assert stream.sql("SELECT id, per_piece FROM {t} ORDER BY id") == [(1, None), (2, 250)]
    stream.assert_accounted()
