"""A new stream of orders for each test of Avro."""

import pytest

from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.avro_orders import stream_of
from lakehouse_tests.helpers.brokers.registries import order_table
from lakehouse_tests.helpers.brokers.streams import Stream


@pytest.fixture
def stream(spark, registry: Settings) -> Stream:
    return stream_of(spark, registry, order_table())
