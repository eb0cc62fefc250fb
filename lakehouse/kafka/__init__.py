"""Kafka: the identity and the contents of a topic, its creation, publishing, and ranges of records as a DataFrame.

``metadata`` describes a topic and its identity, and ``state`` the offsets it holds; it also creates and widens it.
``publish`` sends records, by the schema of a registry if they need one, and whole ones as ``raw_records`` reads them.
``watch`` notices which topics grow. ``transactions`` sends records together with the progress of their sender.
``newest_records`` shows the last ones, and limits what batches become in memory. ``read`` gives ranges of records to
Spark, and reads few of many partitions, and what Spark cannot, itself. ``record_times`` finds the offsets at which a
time begins, and whether the last records that were merged are still there. ``clients`` and ``connection`` connect to a
broker, and explain why that failed; ``failures`` explains why a read failed. ``registry_client`` calls a schema
registry. New requests to a broker belong in this package.

Every function is synchronous and ends within a time limit, even if the broker hangs. No function needs a JVM except
``read_records``, which uses the given Spark session. The package depends on settings and declarations, on the
arithmetic of offsets in ``ledger``, and on the wire protocol in ``local``. It knows no table.
"""

from lakehouse.kafka.clients import only_in_spark
from lakehouse.kafka.failures import TimelessRecordError, read_failures, require_same_source
from lakehouse.kafka.metadata import Incarnation, TopicState
from lakehouse.kafka.newest_records import Record, newest_records
from lakehouse.kafka.publish import PublishOptions, publish, publish_raw, require_own_keys
from lakehouse.kafka.read import CutPlan, cut_around, is_exact_in_spark, is_timeless, read_records, timeless_detail
from lakehouse.kafka.record_times import MergedEnds, first_records, offsets_at, with_lost_ends
from lakehouse.kafka.state import (
    PATIENCE,
    add_partitions,
    create_named_topic,
    create_topic,
    delete_topic,
    read_topic,
    read_topics,
    topic_names,
    written_ends,
)

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
