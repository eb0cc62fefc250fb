"""Columns that are computed from others: exactly, and whatever records hold."""

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

from lakehouse.declaration import Column, Measure, Rollup, StreamTable, Value
from lakehouse.declaration.sql import computed_sql
from lakehouse.kafka import create_topic
from lakehouse.operations.verify import verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.expressions import BENIGN, KINDS, ROWS, TYPES, expression

pytestmark = pytest.mark.invariant(3, 4, 7, 8)


def failing(rows: DataFrame, made: Sequence[str]) -> list[str]:
    """Which of the expressions fail: asked one by one where they fail together."""
    found = []
    for sql in made:
        try:
            rows.selectExpr(sql).toArrow()
        except Exception as error:
            found.append(f"{sql}: {str(error)[:200]}")
    return found


@pytest.mark.parametrize("seed", range(4))
def test_no_expression_that_is_taken_fails_whatever_records_hold(spark, seed: int) -> None:
    chance = Random(seed)
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    rows = spark.createDataFrame(ROWS, columns).localCheckpoint()
    made = []
    for number in range(120):
        type_, kind = list(KINDS.items())[number % len(KINDS)]
        made.append(computed_sql(expression(chance, kind), type_, TYPES))
    try:
        told = rows.selectExpr(*(f"{sql} AS c{number}" for number, sql in enumerate(made))).toArrow()
    except Exception:
        assert failing(rows, made) == []
        raise
    values = [value for column in told.columns for value in column.to_pylist() if value is not None]
    assert all(isfinite(value) for value in values if isinstance(value, float))
    assert all(1 <= value.year <= 9999 for value in values if isinstance(value, date))
    assert len(values) > len(made)


def test_a_text_whose_exponent_is_far_is_no_decimal(spark) -> None:
    """Spark computes every digit of such a one: for hours, or until it fails."""
    far = ("1e-999999999", "1e-20000000", "1e999999999", "1" * 5_000, f"1e-1{chr(0x669) * 9}", "1e-999999999 ")
    near = {"1e-3": "0.00", " 12.345": "12.35", "5E+0002 ": "500.00", "-7": "-7.00", "0" * 999 + "9": "9.00"}
    rows = spark.createDataFrame([(text,) for text in (*far, *near, None, "e", "")], "t STRING").localCheckpoint()
    computed = computed_sql("CAST(t AS DECIMAL(9,2))", "DECIMAL(9,2)", TYPES)
    told = {row[0]: row[1] for row in rows.selectExpr("t", f"{computed} AS d").collect()}
    assert told == dict.fromkeys((*far, None, "e", "")) | {text: Decimal(said) for text, said in near.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_can_be_computed_is_what_spark_makes_of_the_sql_as_it_was_written(spark, seed: int) -> None:
    chance = Random(1000 + seed)
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    rows = spark.createDataFrame(BENIGN, columns).localCheckpoint()
    written = []
    for number in range(90):
        type_, kind = list(KINDS.items())[number % len(KINDS)]
        sql = expression(chance, kind, 2)
        try:
            expected = rows.selectExpr(f"CAST(({sql}) AS {type_}) AS c").toArrow().column(0).to_pylist()
        except PySparkException:  # it fails of some row, or is compared with NULL alone
            continue
        written.append((sql, computed_sql(sql, type_, TYPES), expected))
    told = rows.selectExpr(*(f"{made} AS c{number}" for number, (_, made, _) in enumerate(written))).toArrow()
    assert len(written) > 45
    for (sql, made, expected), column in zip(written, told.columns, strict=True):
        finite = [None if isinstance(each, float) and not isfinite(each) else each for each in expected]
        assert column.to_pylist() == finite, f"{sql}: {made}"


def orders(*more: Column, **changes: Any) -> StreamTable:
    name = f"orders_{uuid4().hex[:8]}"
    columns = [
        Column("id", "BIGINT", required=True, doc="Number."),
        Column("sold_at", "TIMESTAMP", epoch="seconds", doc="When."),
        Column("pieces", "INT", doc="How many."),
        Column("note", "STRING", doc="Note."),
        *more,
    ]
    rollup = Rollup(
        f"{name}_by_size", by=["size"], measures={"rows": Measure("count(*)", "BIGINT", "")}, doc="By size."
    )
    said: dict[str, Any] = dict(key=["id"], rollups=[rollup], partitions=1)
    return StreamTable(name, name, "Orders.", columns, **(said | changes))


SIZE = Column("size", "STRING", sql="CASE WHEN pieces > 99 THEN 'large' ELSE 'small' END", doc="In words.")
SOLD_ON = Column("sold_on", "DATE", sql="CAST(sold_at AS DATE)", doc="Day.")
PER_PIECE = Column("per_piece", "INT", sql="CAST(1000 / pieces AS INT)", doc="Of a thousand.")
NUMBER = Column("number", "INT", sql="CAST(note AS INT)", doc="What the note says, where it is a number.")


def order(number: int, **fields: Any) -> bytes:
    return json.dumps({"id": number, **fields}).encode()


@pytest.mark.slow
def test_rows_hold_what_follows_from_them_and_move_with_it(spark, broker) -> None:
    stream = Stream(spark, broker, orders(SIZE, SOLD_ON, PER_PIECE, NUMBER, partition_by=Value("sold_on")))
    create_topic(broker, stream.table)
    stream.send(
        order(1, sold_at=86_399, pieces=100, note="12"),
        order(2, sold_at=86_400, pieces=0, note="twelve"),
        order(3),
        order(4, pieces="many"),
    )
    (first,) = stream.merge()
    assert counts(first.entry) == dict(read=4, rejected=1, duplicate=0, inserted=3, updated=0, stale=0)
    columns = "id, CAST(sold_on AS STRING), size, per_piece, number"
    assert stream.sql(f"SELECT {columns} FROM {{t}} ORDER BY id") == [
        (1, "1970-01-01", "large", 10, 12),
        (2, "1970-01-02", "small", None, None),
        (3, None, "small", None, None),
    ]
    stream.refresh()
    stream.send(order(1, sold_at=86_401, pieces=3), order(2, sold_at=0, pieces=2**31 - 1))
    (second,) = stream.merge()
    assert counts(second.entry) == dict(read=2, rejected=0, duplicate=0, inserted=0, updated=2, stale=0)
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
def test_a_column_that_is_computed_from_now_on_is_null_in_rows_that_are_there(spark, broker) -> None:
    before = orders(SIZE)
    stream = Stream(spark, broker, before)
    create_topic(broker, before)
    stream.send(order(1, pieces=1), order(2, pieces=2))
    stream.merge()
    later = replace(before, columns=[*before.columns, PER_PIECE])
    stream = Stream(spark, broker, later)
    stream.send(order(2, pieces=4))
    stream.merge()
    stream.replay()
    assert stream.sql("SELECT id, per_piece FROM {t} ORDER BY id") == [(1, None), (2, 250)]
    stream.assert_accounted()
