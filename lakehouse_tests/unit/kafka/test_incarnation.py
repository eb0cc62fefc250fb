"""A topic is a source of a kind for which people have words of their own."""

from lakehouse.kafka.incarnation import Incarnation
from lakehouse.ledger.positions import SourceId, Words, words_of


def test_a_topic_is_told_by_its_cluster_and_its_id() -> None:
    topic = Incarnation("c/1", "t")
    assert topic.source == SourceId("kafka", "c/1/t")
    assert Incarnation.of(topic.source) == topic


def test_a_topic_has_offsets() -> None:
    assert words_of(Incarnation("c", "t").source) == Words("topic", "offset")
