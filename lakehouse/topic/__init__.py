"""Kafka: what a topic holds and who it is, its creation, publishing into it, ranges of it as a DataFrame.

Every function is synchronous and ends within a limit of time, also where the broker hangs. None of them
needs a JVM but ``read_records``, which asks the given Spark session.
"""

from lakehouse.topic.admin import add_partitions, create_topic, delete_topic
from lakehouse.topic.clients import only_in_spark
from lakehouse.topic.failures import read_failures, require_same_topic
from lakehouse.topic.publish import PublishOptions, publish
from lakehouse.topic.read import read_records
from lakehouse.topic.state import look, topic_names

__all__ = [
    "PublishOptions",
    "add_partitions",
    "create_topic",
    "delete_topic",
    "look",
    "only_in_spark",
    "publish",
    "read_failures",
    "read_records",
    "require_same_topic",
    "topic_names",
]
