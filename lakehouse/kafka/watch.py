"""Which topics grow: their ends are asked for again and again, over one connection."""

import asyncio
import time
from collections.abc import Iterable
from itertools import starmap
from threading import Thread

from aiokafka import AIOKafkaConsumer, TopicPartition

from lakehouse.kafka.clients import Clients
from lakehouse.settings import Settings

WATCHED = "lakehouse/topics"
"""The metadata of a sensor with the names of the topics that its table reads, with spaces in between."""
POLL = 0.5  # seconds between two looks at the topics
_LIMIT = 5.0  # seconds without a look after which every topic may have grown


class TopicWatch(Thread):
    """Asks for the ends of topics over one connection, and remembers when each was seen to change."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._changed_at: dict[str, float] = {}
        self._looked_at = 0.0

    def has_grown(self, topics: Iterable[str], since: float) -> bool:
        """Whether one of the topics may have grown since then. From the first call on, a topic is watched."""
        is_blind = time.time() - self._looked_at > _LIMIT
        return is_blind or any(self._changed_at.setdefault(topic, time.time()) >= since for topic in topics)

    def run(self) -> None:
        """Watch the topics; after an error, with a new connection."""
        while True:
            try:
                asyncio.run(self._watch())
            except Exception:  # without a watch, no sensor rests
                time.sleep(_LIMIT)

    async def _watch(self) -> None:
        ends: dict[TopicPartition, int] = {}
        clients = Clients(Settings.load(), _LIMIT)
        async with clients.open(AIOKafkaConsumer, isolation_level="read_committed") as consumer:
            while True:
                topics = [*self._changed_at]
                if not topics:  # the client would ask for all topics of the broker
                    self._looked_at = time.time()
                    await asyncio.sleep(POLL)
                    continue
                await consumer._client.set_topics(topics)
                numbers = ((topic, number) for topic in topics for number in consumer.partitions_for_topic(topic) or ())
                ends_before, ends = ends, await consumer.end_offsets(list(starmap(TopicPartition, numbers)))
                changed = {place.topic for place, _ in ends.items() ^ ends_before.items()}
                self._changed_at |= dict.fromkeys(changed, time.time())
                self._looked_at = time.time()
                await asyncio.sleep(POLL)
