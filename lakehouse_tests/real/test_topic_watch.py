"""The watch of topics notices what a real broker gets, over one connection. No Spark."""

import time
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer

from lakehouse.kafka.watch import TopicWatch
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.histories.surroundings import make_topic
from lakehouse_tests.helpers.waiting import wait_until


def test_only_the_topic_that_grows_is_seen_to_grow(broker: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers(broker))
    quiet, busy = (f"{name}-{uuid4().hex[:12]}" for name in ("quiet", "busy"))
    for name in (quiet, busy):
        make_topic(broker, name, 2)
    watch = TopicWatch()
    assert watch.has_grown([quiet, busy], time.time())
    watch.start()
    assert wait_until(lambda: not any(watch.has_grown([name], time.time() - 1) for name in (quiet, busy)))

    since = time.time()
    with_client(AIOKafkaProducer, broker, lambda producer: producer.send_and_wait(busy, b"{}"))
    assert wait_until(lambda: watch.has_grown([busy], since))
    assert not watch.has_grown([quiet], since)
