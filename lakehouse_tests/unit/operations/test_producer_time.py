"""The check that no producer's clock decides which record is newer."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka.metadata import TopicState
from lakehouse.ledger.positions import SourceId
from lakehouse.operations.verify import producer_time
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.tables.log_tables import log_table
from lakehouse_tests.helpers.tables.tables import redeclare

pytestmark = pytest.mark.invariant("4.4")

BY_BROKER = TopicState("readings", SourceId("kafka", "c/t"), {0: 0}, {0: 9})
BY_PRODUCER = replace(BY_BROKER, producer_time=True)
REVISION = Column("revision", "INT", required=True, doc="Version.")


def test_a_topic_with_producer_time_fails_the_check_with_advice() -> None:
    assert producer_time(BY_BROKER, temperatures).passed
    finding = producer_time(BY_PRODUCER, temperatures)
    assert not finding.passed
    assert "message.timestamp.type=LogAppendTime" in finding.detail


@pytest.mark.parametrize(
    "changes", [{"order": "offset"}, {"columns": [*temperatures.columns, REVISION], "version": BY_REVISION}]
)
def test_producer_time_is_harmless_if_a_version_or_the_offset_decides(changes: dict[str, Any]) -> None:
    assert producer_time(BY_PRODUCER, redeclare(temperatures, **changes)).passed


def test_producer_time_is_harmless_in_a_log_table() -> None:
    assert producer_time(BY_PRODUCER, log_table(rollups=[])).passed
