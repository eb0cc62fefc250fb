"""Statements over few rows: settings that are faster for them, and rows that are kept in this process."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors.troubles import Trouble, has_trouble

if TYPE_CHECKING:
    import pyarrow as pa

# for few rows, one task is faster than adaptive execution stage by stage
_ONE_TASK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
FEW_ROWS = 50_000
# for very few rows, interpretation is faster than generating and compiling code
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
VERY_FEW_ROWS = 10_000
_MAX_SCANNED_ROWS = 1_000_000  # rows of a table that one task scans


@contextmanager
def rows_expected(spark: SparkSession, rows: int | None, joined_rows: int = 0) -> Iterator[None]:
    """Use the fastest settings for statements over this many rows (``None`` if the number is unknown).

    ``joined_rows`` is the number of rows of the table that the rows are joined with.
    """
    is_small = rows is not None and rows <= FEW_ROWS and joined_rows <= _MAX_SCANNED_ROWS
    is_very_small = rows is not None and rows + joined_rows <= VERY_FEW_ROWS
    temporary_conf = (_ONE_TASK if is_small else {}) | (_INTERPRETED if is_small and is_very_small else {})
    previous_conf = {name: spark.conf.get(name) or "" for name in temporary_conf}
    try:
        for name, value in temporary_conf.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in previous_conf.items():
            with suppress(Exception):  # a lost session needs no restoring, and its first error matters more
                spark.conf.set(name, value)


def compute_once(spark: SparkSession, rows: DataFrame, expected: int | None) -> DataFrame:
    """Return the rows computed once: very few are kept in the plans that use them, others by the executors."""
    local_rows = collect_rows(rows) if expected is not None and expected <= VERY_FEW_ROWS else None
    return rows.localCheckpoint() if local_rows is None else spark.createDataFrame(local_rows, rows.schema)


def collect_rows(rows: DataFrame) -> "pa.Table | None":
    """Return the rows in this process; ``None`` if they exceed the maximum that Spark returns (1 GiB by default)."""
    try:
        return rows.toArrow()
    except Exception as error:
        if has_trouble(error, Trouble.TOO_LARGE):
            return None
        raise
