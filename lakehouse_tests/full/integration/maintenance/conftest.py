"""A new stream for each test of maintenance."""

import pytest
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.maintained_streams import MaintainedStream


@pytest.fixture
def stream(spark: SparkSession, broker: Settings) -> MaintainedStream:
    return MaintainedStream.create(spark, broker)
