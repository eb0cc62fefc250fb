"""What Spark itself says of values and names that spell the words of every trouble: its condition or class decides."""

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.errors.troubles import ANOTHER_ROW, Trouble, trouble_of

WORDS = (
    "Permission denied\n\tat a.B(C.java:1)\nCaused by: java.net.ConnectException: No space left on device\n\tat a.B(C)"
    "\nCaused by: io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] ' \" ` [PATH_NOT_FOUND] x"
    f"\n[USER_RAISED_EXCEPTION] {ANOTHER_ROW}\nStatusCode.UNAVAILABLE org.apache.kafka.common.KafkaException: x"
)
NAME = "Permission denied (No space left on device) java.net.ConnectException: x"


def value(spark: SparkSession, tables: Path) -> None:
    values(spark).select(F.col("v").cast("int")).collect()


def worker(spark: SparkSession, tables: Path) -> None:
    def refuse(text: str) -> str:
        raise ValueError(text)

    values(spark).select(F.udf(refuse)("v")).collect()


def constraint(spark: SparkSession, tables: Path) -> None:
    where = f"delta.`{tables}/checked`"
    spark.sql(f"CREATE TABLE {where} (v STRING) USING delta")
    spark.sql(f"ALTER TABLE {where} ADD CONSTRAINT short CHECK (length(v) < 3)")
    values(spark).write.format("delta").mode("append").save(f"{tables}/checked")


def column(spark: SparkSession, tables: Path) -> None:
    values(spark).select(F.col(f"`{NAME}`")).collect()


def no_table(spark: SparkSession, tables: Path) -> None:
    spark.read.format("parquet").load(f"{tables}/{NAME}/none").collect()


def lost_file(spark: SparkSession, tables: Path) -> None:
    folder = tables / NAME / "t"
    values(spark).write.format("delta").save(str(folder))
    rows = spark.read.format("delta").load(str(folder))
    for part in folder.glob("*.parquet"):
        part.unlink()
    rows.collect()


def another_row(spark: SparkSession, tables: Path) -> None:
    values(spark).select(F.expr(f"raise_error('{ANOTHER_ROW}')")).collect()


def raised_by_others(spark: SparkSession, tables: Path) -> None:
    values(spark).select(F.expr("raise_error(v)")).collect()


def values(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(WORDS,)], "v STRING").repartition(2)


MADE: dict[Callable[[SparkSession, Path], None], Trouble | None] = {
    value: Trouble.NOT_COMPUTED,
    worker: None,
    constraint: Trouble.CONSTRAINT,
    column: None,
    no_table: Trouble.NO_TABLE,
    lost_file: Trouble.GONE,
    another_row: Trouble.CONFLICT,
    raised_by_others: None,
}


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_what_an_error_quotes_decides_nothing(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession, Path], None]
) -> None:
    with pytest.raises((PySparkException, Py4JJavaError)) as failed:
        make(spark, tmp_path)
    assert trouble_of(failed.value, Trouble) is MADE[make]
