"""The identity of a topic, in Kafka's terms: what distinguishes a source of the kind ``kafka``."""

from dataclasses import asdict, dataclass

from lakehouse.ledger.positions import SourceId, SourceState

_KIND = "kafka"


@dataclass(frozen=True, order=True)
class Incarnation:
    """The identity of a topic: the id of its cluster, and the id that the topic got when it was created."""

    cluster_id: str
    topic_id: str

    @property
    def source(self) -> SourceId:
        """The topic as a source: its identity is the id of its cluster, a slash, and its own id."""
        return SourceId(_KIND, f"{self.cluster_id}/{self.topic_id}")

    @classmethod
    def of(cls, source: SourceId) -> "Incarnation":
        """Parse the identity of a ``source``; the id of a topic contains no slash."""
        cluster_id, _, topic_id = source.identity.rpartition("/")
        return cls(cluster_id, topic_id)


@dataclass(frozen=True)
class TopicState(SourceState):
    """The state of a topic at one time: its identity and the offsets it holds.

    ``earliest`` is the first offset that is still present. ``end`` is the last stable offset: the next one that a
    committed record will get. ``deletes_kept`` is for how many microseconds a compacted topic keeps deletes; ``None``
    if it is not compacted, or the broker does not say.
    """

    deletes_kept: int | None = None

    @property
    def ids(self) -> dict[str, str]:
        """The ids of its cluster and of the topic, by name."""
        return asdict(Incarnation.of(self.source))

    def differs_from(self, before: SourceId) -> str:
        """Describe how the topic that was merged before differs: another topic, or one of another cluster."""
        if before.kind != self.source.kind:
            return super().differs_from(before)
        current, former = Incarnation.of(self.source), Incarnation.of(before)
        if current.cluster_id != former.cluster_id:
            return (
                f"The broker belongs to cluster {current.cluster_id}, but the table was read from {former.cluster_id}"
            )
        ids = f"its id was {former.topic_id} and is {current.topic_id}"
        return f"Another topic was merged: this one was deleted and created again, or another one was declared; {ids}"
