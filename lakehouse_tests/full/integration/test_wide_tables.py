"""Declarations with many columns of every type: Spark's plans grow at most linearly with the columns."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.plans import plan_sizes
from lakehouse_tests.helpers.tables.wide_tables import wide_records, wide_table

MAX_PLAN_SIZE = 30_000  # characters of a plan per column; the largest plan so far had 11,000


def merge_twice(spark: SparkSession, settings: Settings, seed: int, columns: int, share: float) -> list[int]:
    """Merge and refresh two batches, the second of which updates every row; return the sizes of all plans."""
    stream = Stream.of(spark, settings, wide_table(seed, columns, share))
    sizes: list[int] = []
    for turn in range(2):
        stream.send(*wide_records(stream.table, seed + turn, 60))
        for step in (stream.merge, stream.refresh):
            with plan_sizes(spark) as step_sizes:
                step()
            sizes += step_sizes
        assert stream.sql("SELECT count(*) FROM {t}") == [(60,)]
        assert stream.sql("SELECT sum(rows) FROM {rollup}") == [(60,)]
    stream.assert_accounted()
    return sizes


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("columns", "share"), [(10, 0.3), (30, 0.3), (30, 1.0), (100, 0.3), (100, 0.0)])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_table_of_many_columns_is_merged_and_derived(
    spark: Any, broker: Settings, seed: int, columns: int, share: float
) -> None:
    sizes = merge_twice(spark, broker, seed, columns, share)
    assert max(sizes) < MAX_PLAN_SIZE * columns
