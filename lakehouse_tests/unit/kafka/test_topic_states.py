"""The states of several topics: each request to the broker is about all of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED
from aiokafka.errors import KafkaError

from lakehouse.errors import TopicError
from lakehouse.kafka import clients as kafka_clients
from lakehouse.kafka import read_topic, read_topics, state
from lakehouse.kafka.metadata import Incarnation, TopicMetadata
from lakehouse.settings import Settings

SETTINGS = Settings(kafka_bootstrap_servers="127.0.0.1:1", _env_file=None)
CONFIGS = {
    "a": [("message.timestamp.type", "LogAppendTime"), ("cleanup.policy", "compact,delete")],
    "b": [("message.timestamp.type", "CreateTime"), ("cleanup.policy", "delete")],
}


class Broker:
    """Answers in place of the clients, and counts what it is asked; topic ``a`` has two partitions, ``b`` one."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.ids = {"a": ["1", "1"], "b": ["2", "2"]}
        self.has_configs = True
        self._client = SimpleNamespace(set_topics=self.set_topics)
        self._fetcher = SimpleNamespace(_isolation_level=READ_COMMITTED)
        self.open_count = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    stop = close

    async def set_topics(self, _: Sequence[str]) -> None:
        self.requests["leaders"] += 1

    async def describe(self, _: object, names: Sequence[str]) -> list[TopicMetadata]:
        number = self.requests["topics"]
        self.requests["topics"] += 1
        leaders = {"a": {0: 1, 1: 1}, "b": {0: 1}}
        known_names = sorted({*names} & {*self.ids}, reverse=True)
        return [
            TopicMetadata(name, Incarnation("c", self.ids[name][number]), internal=False, leaders=leaders[name])
            for name in known_names
        ]

    async def describe_configs(self, resources: Sequence[Any]) -> list[Any]:
        self.requests["configs"] += 1
        if not self.has_configs:
            raise KafkaError
        answers = [(0, "", 2, resource.name, CONFIGS[resource.name]) for resource in resources]
        return [SimpleNamespace(resources=answers)]

    async def end_offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.requests["ends"] += 1
        behind = self.open_count if self._fetcher._isolation_level == READ_UNCOMMITTED else 0
        return {place: 10 + place.partition + 100 * (place.topic == "b") + behind for place in places}

    async def beginning_offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(reversed(places), 3)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """A broker that both clients reach."""
    broker = Broker()
    for name in ("AIOKafkaAdminClient", "AIOKafkaConsumer"):
        monkeypatch.setattr(state, name, lambda **_: broker)
    monkeypatch.setattr(state, "describe_topics", broker.describe)
    monkeypatch.setattr(kafka_clients, "arguments", lambda *_: {})
    return broker


def test_the_states_of_several_topics_need_one_request_of_each_kind(broker: Broker) -> None:
    b, a = read_topics(SETTINGS, ["b", "a"])
    assert broker.requests == {"topics": 2, "configs": 1, "ends": 1, "leaders": 1}
    assert (a.stream, a.earliest, a.end) == ("a", {0: 3, 1: 3}, {0: 10, 1: 11})
    assert (b.stream, b.earliest, b.end) == ("b", {0: 3}, {0: 110})
    assert (a.is_compacted, a.producer_time, b.is_compacted, b.producer_time) == (True, False, False, True)
    assert (a.source, b.source) == (Incarnation("c", "1").source, Incarnation("c", "2").source)


def test_the_state_of_one_topic_is_the_same_without_a_request_for_leaders(broker: Broker) -> None:
    one = read_topic(SETTINGS, "a")
    assert broker.requests == {"topics": 2, "configs": 1, "ends": 1}
    broker.requests.clear()
    assert read_topics(SETTINGS, ["b", "a"])[1] == one


@pytest.mark.invariant("12.10")
def test_records_behind_an_open_transaction_are_counted_if_they_are_asked_for(broker: Broker) -> None:
    broker.open_count = 7
    assert read_topic(SETTINGS, "b").held_parts == ()
    broker.requests.clear()
    b, a = read_topics(SETTINGS, ["b", "a"], with_held=True)
    assert broker.requests == {"topics": 2, "configs": 1, "ends": 2, "leaders": 1}
    assert [part.text for part in b.held_parts] == [
        "topic b, partition 0 from offset 110 on (behind an open transaction)"
    ]
    assert [part.count for part in a.held_parts] == [7, 7]
    assert b.end == {0: 110}


def test_a_missing_topic_a_replaced_one_and_missing_configs_are_noticed_among_several(broker: Broker) -> None:
    with pytest.raises(TopicError, match="'c' does not exist"):
        read_topics(SETTINGS, ["a", "c", "b"])
    broker.requests.clear()
    broker.has_configs = False
    assert [topic.is_compacted for topic in read_topics(SETTINGS, ["a", "b"])] == [None, None]
    broker.requests.clear()
    broker.ids["b"][1] = "3"
    with pytest.raises(TopicError, match="was replaced") as error:
        read_topics(SETTINGS, ["a", "b"])
    assert "topic b" in str(error.value)
