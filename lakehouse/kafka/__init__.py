"""Kafka: the identity and the contents of a topic, its creation, publishing, and ranges of records as a DataFrame.

``state`` and ``metadata`` describe a topic and its identity, and ``admin`` creates and widens it. ``publish`` sends
records, by the schema of a registry if they need one, and whole ones as ``raw_records`` reads them. ``newest_records``
shows the last ones, ``read`` gives ranges of records to Spark, ``few_records`` reads few of many partitions itself,
within ``batch_limits``, and ``timeless`` reads what Spark cannot; ``arrow_records`` has the columns of both.
``record_times`` finds the offsets at which a time begins, ``lost_ends`` whether the last records that were merged are
still there. ``clients`` and ``connection`` connect to a broker; ``connection_causes`` and ``failures`` explain why that
failed. ``registry_client`` calls a schema registry. New requests to a broker belong in this package.

Every function is synchronous and ends within a time limit, even if the broker hangs. No function needs a JVM except
``read_records``, which uses the given Spark session. The package depends on settings and declarations, on the
arithmetic of offsets in ``ledger``, and on the wire protocol in ``local``. It knows no table.
"""

from lakehouse.kafka.admin import add_partitions, create_named_topic, create_topic, delete_topic
from lakehouse.kafka.clients import only_in_spark
from lakehouse.kafka.failures import TimelessRecordError, read_failures, require_same_source
from lakehouse.kafka.lost_ends import MergedEnds, with_lost_ends
from lakehouse.kafka.metadata import Incarnation, TopicState
from lakehouse.kafka.newest_records import Record, newest_records
from lakehouse.kafka.publish import PublishOptions, publish, publish_raw, require_own_keys
from lakehouse.kafka.read import read_records
from lakehouse.kafka.record_times import first_records, offsets_at
from lakehouse.kafka.state import PATIENCE, read_topic, read_topics, topic_names, written_ends
from lakehouse.kafka.timeless import CutPlan, cut_around, is_exact_in_spark, is_timeless, timeless_detail

__all__ = [
    "PATIENCE",
    "CutPlan",
    "Incarnation",
    "MergedEnds",
    "PublishOptions",
    "Record",
    "TimelessRecordError",
    "TopicState",
    "add_partitions",
    "create_named_topic",
    "create_topic",
    "cut_around",
    "delete_topic",
    "first_records",
    "is_exact_in_spark",
    "is_timeless",
    "newest_records",
    "offsets_at",
    "only_in_spark",
    "publish",
    "publish_raw",
    "read_failures",
    "read_records",
    "read_topic",
    "read_topics",
    "require_own_keys",
    "require_same_source",
    "timeless_detail",
    "topic_names",
    "with_lost_ends",
    "written_ends",
]
