"""A topic of Kafka as a source: its partitions, and offsets as positions."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.kafka import TopicState, read_failures, read_records, read_topic, read_topics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan
from lakehouse.settings import Settings
from lakehouse.sources.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def look_at_topics(settings: Settings, topics: Sequence[str], limit: float) -> list[TopicState]:
    """Ask the broker about several topics at once."""
    return read_topics(settings, topics, limit)


@dataclass(frozen=True)
class TopicSource(Source):
    """One topic; the broker gives each record its offset."""

    settings: Settings
    topic: str

    def look(self, ledger: Ledger | None, limit: float) -> TopicState:  # noqa: ARG002 - a topic knows what it has
        """Ask the broker, as ``read_topic`` does."""
        return read_topic(self.settings, self.topic, limit)

    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "DataFrame":  # noqa: ARG002
        """Read the plan, as ``read_records`` does."""
        return read_records(spark, self.settings, plan)

    def failures(self, plan: Plan, command: str) -> AbstractContextManager[None]:
        """Explain a failure, as ``read_failures`` does."""
        return read_failures(plan, command)
