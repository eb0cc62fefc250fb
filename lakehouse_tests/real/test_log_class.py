"""A Spark of another program must write logs in a store by the class that replaces no commit."""

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import SetupError
from lakehouse.settings import Settings
from lakehouse.spark import sessions


def test_a_spark_with_another_class_for_logs_in_s3_is_refused(spark: SparkSession) -> None:
    """The session of the tests was started for tables on a disk."""
    for scheme in ("s3", "s3a"):
        advice = rf"--conf spark\.delta\.logStore\.{scheme}\.impl=lakehouse\.ConditionalLogStore.*WRITERS=one"
        with pytest.raises(SetupError, match=advice):
            sessions._require_log_store(spark, Settings(tables=f"{scheme}://elsewhere/lake", _env_file=None))


def test_a_spark_with_another_class_than_that_of_delta_for_logs_in_azure_is_refused(spark: SparkSession) -> None:
    settings = Settings(tables="abfss://box@account.dfs.core.windows.net/lake", _env_file=None)
    sessions._require_log_store(spark, settings)
    for name in ("spark.delta.logStore.abfss.impl", "spark.delta.logStore.class"):
        spark.conf.set(name, "elsewhere.LogStore")
        try:
            with pytest.raises(SetupError, match=r"Start it without spark\.delta\.logStore.*WRITERS=one"):
                sessions._require_log_store(spark, settings)
            spark.conf.set(name, "io.delta.storage.AzureLogStore")
            sessions._require_log_store(spark, settings)
        finally:
            spark.conf.unset(name)


def test_one_declared_writer_may_have_any_class(spark: SparkSession) -> None:
    sessions._require_log_store(spark, Settings(tables="s3://elsewhere/lake", store_writers="one", _env_file=None))
    sessions._require_log_store(spark, Settings(_env_file=None))
    Settings(tables="s3://elsewhere/lake", _env_file=None)
