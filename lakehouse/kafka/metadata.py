"""The metadata of a topic: its id, the id of its cluster, and its partitions.

aiokafka supports Metadata requests up to version 5, which have no ids. This module sends version 12 (Kafka 3.1)
through aiokafka's own connection; for this reason aiokafka is pinned exactly. The request never creates a topic.
"""

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import InvalidTopicError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from lakehouse.errors import BrokerRefusedError
from lakehouse.ledger.positions import SourceId, SourceState

_KIND = "kafka"
_MISSING_CODES = (UnknownTopicOrPartitionError.errno, InvalidTopicError.errno)
_NO_ID = bytes(16)
_TAGS = ("tags", TaggedFields)


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


@dataclass(frozen=True)
class TopicMetadata:
    """A topic as the broker describes it; ``leaders`` has the id of the broker that leads each partition, or -1."""

    topic: str
    incarnation: Incarnation
    internal: bool
    leaders: dict[int, int]


def require_ids(topic: TopicMetadata) -> None:
    """Raise ``BrokerRefusedError`` if the topic or its cluster has no id: data loss could not be detected then."""
    is_missing = {
        "its cluster": not topic.incarnation.cluster_id,
        "the topic": topic.incarnation.topic_id == _text(_NO_ID),
    }
    owners = " and ".join(owner for owner, is_id_missing in is_missing.items() if is_id_missing)
    if owners:
        raise BrokerRefusedError(
            f"The broker reports no id of {owners}: a topic that is deleted and created again would look the same,"
            " and its records would be lost silently",
            where=f"topic {topic.topic}",
            action="Nothing was written. Use a broker that gives ids to its cluster and to topics, such as Kafka 3.1."
            " On an upgraded broker, raise inter.broker.protocol.version to at least 2.8.",
        )


async def describe_topics(admin: AIOKafkaAdminClient, topics: Sequence[str] | None = None) -> list[TopicMetadata]:
    """Return the metadata of these topics, or of all; a topic that does not exist is left out."""
    client = admin._client
    response = await client.send(client.get_random_node(), _MetadataRequest(topics))
    return [
        TopicMetadata(
            name,
            Incarnation(response.cluster_id or "", _text(topic_id)),
            is_internal,
            {partition[1]: partition[2] for partition in partitions},
        )
        for code, name, topic_id, is_internal, partitions, *_ in response.topics
        if _exists(code)
    ]


def _exists(code: int) -> bool:
    if code in _MISSING_CODES:
        return False
    error = for_code(code)
    if code and not error.retriable:
        raise error()
    return True


def _text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


class _Uuid(AbstractType[bytes]):  # type: ignore[misc]
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


class _ResponseV12(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", CompactString()), ("port", Int32), ("rack", CompactString()), _TAGS
            ),
        ),
        ("cluster_id", CompactString()),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString()),
                ("topic_id", _Uuid),
                ("internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("in_sync", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        _TAGS,
                    ),
                ),
                ("authorized_operations", Int32),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class _RequestV12(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = _ResponseV12
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", CompactString()), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_authorized_operations", Boolean),
        _TAGS,
    )


class _MetadataRequest(Request[_RequestV12]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topics: Sequence[str] | None) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_RequestV12]) -> _RequestV12:
        topics: list[Any] | None = None
        if self._topics is not None:
            topics = [(_NO_ID, name, {}) for name in self._topics]
        return request_struct_class(topics, False, False, {})
