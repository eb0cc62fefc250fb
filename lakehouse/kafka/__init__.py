"""Kafka: what a topic holds and who it is, its creation, publishing into it, ranges of it as a DataFrame.

``state`` and ``metadata`` look at a topic, ``incarnation`` says which it is, ``admin`` makes and widens it,
``publish`` fills it, ``newest_records`` shows its end, ``read`` gives ranges of it to Spark, ``timeless`` reads what
Spark cannot. ``clients``, ``connection`` and ``security`` are how a broker is spoken to, ``connection_causes`` and
``failures`` say why that did not work. ``registry_client`` asks a schema registry, and ``writing`` chooses the schema
by which lines are written. What asks a broker anything new goes here.

Every function is synchronous and ends within a limit of time, also where the broker hangs. None of them needs a JVM
but ``read_records``, which asks the given Spark session. The package knows settings and declarations, of
``ledger`` the arithmetic of offsets, and of ``local`` how Kafka speaks; no table.
"""

from lakehouse.kafka.admin import add_partitions, create_topic, delete_topic
from lakehouse.kafka.clients import only_in_spark
from lakehouse.kafka.failures import TimelessRecordError, read_failures, require_same_topic
from lakehouse.kafka.incarnation import Incarnation, TopicState
from lakehouse.kafka.newest_records import Record, newest_records
from lakehouse.kafka.publish import PublishOptions, publish, require_own_keys
from lakehouse.kafka.read import read_records
from lakehouse.kafka.state import PATIENCE, look, topic_names
from lakehouse.kafka.timeless import CutPlan, cut_around, is_timeless, told_time

__all__ = [
    "PATIENCE",
    "CutPlan",
    "Incarnation",
    "PublishOptions",
    "Record",
    "TimelessRecordError",
    "TopicState",
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
