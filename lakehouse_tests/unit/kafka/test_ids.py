"""A topic or a cluster without an id is refused: data loss could not be detected there."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.defs.waiting import is_unavailable
from lakehouse.errors import BrokerRefusedError
from lakehouse.kafka.metadata import describe_topics, require_ids

pytestmark = pytest.mark.invariant("9.3")

TOPIC_ID = bytes(range(16))


class Broker:
    """A client of a broker that reports these ids: no broker that tests can start omits one."""

    def __init__(self, cluster_id: str | None, topic_id: bytes) -> None:
        self._client = self
        topic = (0, "readings", topic_id, False, [(0, 0, 1)])
        self._answer = SimpleNamespace(cluster_id=cluster_id, topics=[topic])

    def get_random_node(self) -> int:
        return 1

    async def send(self, *_: Any) -> Any:
        return self._answer


@pytest.mark.parametrize(
    ("cluster_id", "topic_id", "message"),
    [
        (None, TOPIC_ID, "no id of its cluster:"),
        ("", TOPIC_ID, "no id of its cluster:"),
        ("c", bytes(16), "no id of the topic:"),
        (None, bytes(16), "no id of its cluster and the topic:"),
    ],
)
def test_a_topic_without_an_id_or_in_a_cluster_without_one_is_refused(cluster_id, topic_id, message):
    (topic,) = asyncio.run(describe_topics(Broker(cluster_id, topic_id)))
    with pytest.raises(BrokerRefusedError, match=f"{message}.*topic readings.*Nothing was written") as raised:
        require_ids(topic)
    assert not is_unavailable(raised.value), "waiting does not help: the sensor reports it"


def test_a_topic_with_ids_is_accepted():
    (topic,) = asyncio.run(describe_topics(Broker("c", TOPIC_ID)))
    require_ids(topic)
