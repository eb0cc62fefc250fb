"""Rows and changes of any Delta table, by its path or URI: read by Spark, as of the versions that are asked for."""

from pyspark.sql import DataFrame, SparkSession

_COLUMNS_OF_CHANGES = "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable"


def read_version(spark: SparkSession, uri: str, version: int) -> DataFrame:
    """Return the rows as of a version; VACUUM may have deleted its files."""
    return spark.read.format("delta").option("versionAsOf", version).load(uri)


def read_changes_between(spark: SparkSession, uri: str, first: int, last: int) -> DataFrame:
    """Return the change data of the versions from ``first`` to ``last``, both included; VACUUM may have deleted it.

    If columns were renamed or dropped since, it has the columns as of ``last``; none may be in between.
    """
    spark.conf.set(_COLUMNS_OF_CHANGES, "endVersion")
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", first).option("endingVersion", last).load(uri)
