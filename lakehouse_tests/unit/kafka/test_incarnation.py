"""The identity of a topic, and the terms for its kind of source."""

from lakehouse.kafka.metadata import Incarnation
from lakehouse.ledger.positions import SourceId, SourceWords, source_words


def test_the_ids_of_its_cluster_and_of_the_topic_identify_a_topic() -> None:
    topic = Incarnation("c/1", "t")
    assert topic.source == SourceId("kafka", "c/1/t")
    assert Incarnation.of(topic.source) == topic


def test_the_positions_of_a_topic_are_called_offsets() -> None:
    assert source_words(Incarnation("c", "t").source) == SourceWords("topic", "offset")
