"""Kafka: what a topic holds and who it is, its creation, publishing into it, ranges of it as a DataFrame.

``offsets`` is the pure arithmetic: ranges, progress, gaps, plans. ``state`` and ``metadata`` look at a topic, ``admin``
makes and widens it, ``publish`` fills it, ``newest`` shows its end, ``read`` gives ranges of it to Spark, ``timeless``
reads what Spark cannot; ``clients``, ``connection`` and ``security`` are how a broker is spoken to, ``causes`` and
``failures`` why that did not work. What asks a broker anything new goes here. ``registry`` is how a schema registry is
asked, and ``writing`` chooses the schema by which lines are written.

Every function is synchronous and ends within a limit of time, also where the broker hangs. None of them needs a JVM
but ``read_records``, which asks the given Spark session. The package knows settings and declarations, and of
``local`` how Kafka speaks; no table.
"""

from lakehouse.topic.admin import add_partitions, create_topic, delete_topic
from lakehouse.topic.clients import only_in_spark
from lakehouse.topic.failures import TimelessRecordError, read_failures, require_same_topic
from lakehouse.topic.newest import Record, newest_records
from lakehouse.topic.publish import PublishOptions, publish, require_own_keys
from lakehouse.topic.read import read_records
from lakehouse.topic.state import look, topic_names
from lakehouse.topic.timeless import CutPlan, cut_around, is_timeless, told_time

__all__ = [
    "CutPlan",
    "PublishOptions",
    "Record",
    "TimelessRecordError",
    "add_partitions",
    "create_topic",
    "cut_around",
    "delete_topic",
    "is_timeless",
    "look",
    "newest_records",
    "only_in_spark",
    "publish",
    "read_failures",
    "read_records",
    "require_own_keys",
    "require_same_topic",
    "told_time",
    "topic_names",
]
