"""Rows and changes of any Delta table, by its path or URI: read by Spark, as of the versions that are asked for."""

from pyspark.sql import DataFrame, SparkSession


def read_version(spark: SparkSession, uri: str, version: int) -> DataFrame:
    """Return the rows as of a version; VACUUM may have deleted its files."""
    return spark.read.format("delta").option("versionAsOf", version).load(uri)


def read_changes_between(spark: SparkSession, uri: str, first: int, last: int) -> DataFrame:
    """Return the change data of the versions from ``first`` to ``last``, both included; VACUUM may have deleted it."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", first).option("endingVersion", last).load(uri)
