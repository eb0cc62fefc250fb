"""Which topic of a name it is: what a source of the kind ``kafka`` is told by, in Kafka's own words."""

from dataclasses import asdict, dataclass

from lakehouse.ledger.positions import SourceId, SourceState

_KIND = "kafka"


@dataclass(frozen=True, order=True)
class Incarnation:
    """Which topic of that name: the cluster it is in, and the id it got when it was made."""

    cluster_id: str
    topic_id: str

    @property
    def source(self) -> SourceId:
        """The topic as a source: its identity is the id of its cluster, a slash, its own id."""
        return SourceId(_KIND, f"{self.cluster_id}/{self.topic_id}")

    @classmethod
    def of(cls, source: SourceId) -> "Incarnation":
        """Read what ``source`` wrote; an id of a topic holds no slash."""
        cluster_id, _, topic_id = source.identity.rpartition("/")
        return cls(cluster_id, topic_id)


@dataclass(frozen=True)
class TopicState(SourceState):
    """One look at the broker: which topic it is and the offsets it holds.

    ``earliest`` is the first offset still there, ``end`` the last stable offset: the next one a
    committed record will get. ``producer_time`` says that producers, not the broker, date the records.
    """

    producer_time: bool = False

    @property
    def ids(self) -> dict[str, str]:
        """The ids of its cluster and of the topic, by their names."""
        return asdict(Incarnation.of(self.source))

    def differs_from(self, before: SourceId) -> str:
        """Say that another topic was merged before, or one of another cluster."""
        if before.kind != self.source.kind:
            return super().differs_from(before)
        now, then = Incarnation.of(self.source), Incarnation.of(before)
        if now.cluster_id != then.cluster_id:
            return f"The broker belongs to cluster {now.cluster_id}, the table was read from {then.cluster_id}"
        ids = f"its id was {then.topic_id} and is {now.topic_id}"
        return f"Another topic was merged: this one was deleted and created again, or another was declared; {ids}"
