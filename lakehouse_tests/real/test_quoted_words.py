"""Errors of Spark that quote the words of other errors: only the error condition or class decides their kind."""

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.errors.troubles import ANOTHER_ROW, Trouble, find_trouble

WORDS = (
    "Permission denied\n\tat a.B(C.java:1)\nCaused by: java.net.ConnectException: No space left on device\n\tat a.B(C)"
    "\nCaused by: io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] ' \" ` [PATH_NOT_FOUND] x"
    f"\n[USER_RAISED_EXCEPTION] {ANOTHER_ROW}\nStatusCode.UNAVAILABLE org.apache.kafka.common.KafkaException: x"
)
NAME = "Permission denied (No space left on device) java.net.ConnectException: x"


def cast_value(spark: SparkSession, tables: Path) -> None:
    rows_of_words(spark).select(F.col("v").cast("int")).collect()


def raise_in_worker(spark: SparkSession, tables: Path) -> None:
    def refuse(text: str) -> str:
        raise ValueError(text)

    rows_of_words(spark).select(F.udf(refuse)("v")).collect()


def violate_constraint(spark: SparkSession, tables: Path) -> None:
    table = f"delta.`{tables}/checked`"
    spark.sql(f"CREATE TABLE {table} (v STRING) USING delta")
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT short CHECK (length(v) < 3)")
    rows_of_words(spark).write.format("delta").mode("append").save(f"{tables}/checked")


def select_unknown_column(spark: SparkSession, tables: Path) -> None:
    rows_of_words(spark).select(F.col(f"`{NAME}`")).collect()


def read_missing_table(spark: SparkSession, tables: Path) -> None:
    spark.read.format("parquet").load(f"{tables}/{NAME}/none").collect()


def read_deleted_file(spark: SparkSession, tables: Path) -> None:
    folder = tables / NAME / "t"
    rows_of_words(spark).write.format("delta").save(str(folder))
    rows = spark.read.format("delta").load(str(folder))
    for file in folder.glob("*.parquet"):
        file.unlink()
    rows.collect()


def raise_another_row(spark: SparkSession, tables: Path) -> None:
    rows_of_words(spark).select(F.expr(f"raise_error('{ANOTHER_ROW}')")).collect()


def raise_by_sql(spark: SparkSession, tables: Path) -> None:
    rows_of_words(spark).select(F.expr("raise_error(v)")).collect()


def rows_of_words(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(WORDS,)], "v STRING").repartition(2)


TROUBLES: dict[Callable[[SparkSession, Path], None], Trouble | None] = {
    cast_value: Trouble.NOT_COMPUTED,
    raise_in_worker: None,
    violate_constraint: Trouble.CONSTRAINT,
    select_unknown_column: None,
    read_missing_table: Trouble.NO_TABLE,
    read_deleted_file: Trouble.GONE,
    raise_another_row: Trouble.CONFLICT,
    raise_by_sql: None,
}


@pytest.mark.parametrize("fail", TROUBLES, ids=lambda fail: fail.__name__)
def test_text_quoted_in_an_error_does_not_decide_its_kind(
    spark: SparkSession, tmp_path: Path, fail: Callable[[SparkSession, Path], None]
) -> None:
    with pytest.raises((PySparkException, Py4JJavaError)) as error:
        fail(spark, tmp_path)
    assert find_trouble(error.value, Trouble) is TROUBLES[fail]
