"""The records of a plan as a Spark DataFrame."""

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from aiokafka import AIOKafkaConsumer, TopicPartition

from lakehouse.decoding import staged
from lakehouse.decoding.record_schema import RECORD_SCHEMA
from lakehouse.kafka.batch_limits import batches_limited
from lakehouse.kafka.clients import Clients, spark_security
from lakehouse.kafka.connection import ask
from lakehouse.kafka.newest_records import Record, to_record
from lakehouse.kafka.timeless import ROOM, is_exact_in_spark, is_timeless, size_of
from lakehouse.ledger.positions import Plan
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY_PARTITIONS = 3
FEW_POSITIONS = 10_000
_POLL_MS = 50  # also how long a broker waits for records of partitions that have been read
_LIMIT = 10.0  # seconds
_log = logging.getLogger(__name__)
_COLUMNS = (
    f"timestamp AS {staged.TIME}",
    f"partition AS {staged.PARTITION}",
    f"offset AS {staged.POSITION}",
    f"CAST(NULL AS BIGINT) AS {staged.SEQUENCE}",
    f"key AS {staged.KEY}",
    f"value AS {staged.VALUE}",
    f"headers AS {staged.HEADERS}",
)
_READ_OPTIONS = {
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "kafka.isolation.level": "read_committed",
    # With the defaults, small reads are slow and broken ones hang for minutes. A dead leader is replaced after
    # 9 seconds (the broker's default): a read waits longer than that, and then fails.
    "kafka.fetch.max.wait.ms": "50",
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "10000",
    "kafkaConsumer.pollTimeoutMs": "12000",
    "fetchOffset.numRetries": "1",
}
OFFSETS_A_TASK = 50_000  # a longer range is split, so that one partition keeps all cores busy


def read_few_records(settings: Settings, plan: Plan) -> list[Record] | None:
    """Return exactly the committed records in the ranges of a plan; ``None`` if Spark has to read them.

    That is so if the ranges have many positions or few partitions, if the records have many bytes, or a time or a
    header that only Spark's client can read as it does; and if anything fails, so that Spark's failure is the one that
    is explained.
    """
    ranges = [offsets for offsets in plan.ranges if offsets.span]
    if len(ranges) < MANY_PARTITIONS or plan.span > FEW_POSITIONS:
        return None

    async def read_all(clients: Clients) -> list[Record] | None:
        options = {"isolation_level": "read_committed", "auto_offset_reset": "none", "fetch_max_wait_ms": _POLL_MS}
        async with clients.open(AIOKafkaConsumer, **options) as consumer:
            records = await _read(consumer, plan)
            earliest = await consumer.beginning_offsets(list(consumer.assignment()))
        is_whole = all(earliest[TopicPartition(plan.stream, part.partition)] <= part.start for part in ranges)
        return records if is_whole else None

    try:
        with batches_limited(2 * ROOM):  # a batch may also have records outside of the ranges
            return ask(settings, _LIMIT, read_all)
    except Exception as error:
        _log.debug("Spark reads %s instead: %s", plan.stream, error)
        return None


async def _read(consumer: Any, plan: Plan) -> list[Record] | None:
    """Read the ranges of a plan; ``None`` as soon as Spark has to read them."""
    ends = {TopicPartition(plan.stream, offsets.partition): offsets.end for offsets in plan.ranges if offsets.span}
    consumer.assign(list(ends))
    for offsets in plan.ranges:
        if offsets.span:
            consumer.seek(TopicPartition(plan.stream, offsets.partition), offsets.start)
    records, size = list[Record](), 0
    while ends:
        batches = await consumer.getmany(*ends, timeout_ms=_POLL_MS)
        for partition, messages in batches.items():
            new_records = [to_record(message) for message in messages if message.offset < ends[partition]]
            size += sum(map(size_of, new_records))
            if size > ROOM or not all(is_exact_in_spark(record.milliseconds) for record in new_records):
                return None
            records += new_records
        for partition in [part for part, end in ends.items() if await consumer.position(part) >= end]:
            consumer.pause(partition)
            del ends[partition]
    return records


def read_records(spark: "SparkSession", settings: Settings, plan: Plan) -> "DataFrame":
    """Return exactly the committed records in the ranges of the plan: one row for each record.

    Columns: ``_partition`` INT, ``_position`` BIGINT (the offset), ``_sequence`` BIGINT (NULL: a topic has no other
    order), ``_time`` TIMESTAMP, ``_key`` BINARY (NULL: none), ``_value`` BINARY (NULL: none),
    ``_headers`` ARRAY<STRUCT<key STRING, value BINARY>>.
    If records or the broker are gone, the action that reads the DataFrame fails.
    """
    few_records = read_few_records(settings, plan)
    if few_records is not None:
        return spark.createDataFrame(to_arrow(few_records))
    ranges = [offsets for offsets in plan.ranges if offsets.span] or plan.ranges
    plan_options = {
        "maxRecordsPerPartition": str(OFFSETS_A_TASK),
        "kafka.bootstrap.servers": bootstrap_servers(settings),
        "assign": json.dumps({plan.stream: [offsets.partition for offsets in ranges]}),
        "startingOffsets": json.dumps({plan.stream: {str(offsets.partition): offsets.start for offsets in ranges}}),
        "endingOffsets": json.dumps({plan.stream: {str(offsets.partition): offsets.end for offsets in ranges}}),
    }
    user_options = {f"kafka.{name}": value for name, value in settings.client_properties.items()}
    options = {**_READ_OPTIONS, **user_options, **plan_options, **spark_security(settings)}
    return spark.read.format("kafka").options(**options).load().selectExpr(*_COLUMNS)


def to_arrow(records: Sequence[Record]) -> pa.Table:
    """Return records with the columns of ``read_records``; a time that is out of range is NULL."""
    columns = [
        [None if is_timeless(record.milliseconds) else record.milliseconds * 1000 for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [None] * len(records),
        [record.key for record in records],
        [record.value for record in records],
        [[{"key": name, "value": value} for name, value in record.headers] or None for record in records],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, RECORD_SCHEMA, strict=True)], RECORD_SCHEMA
    )
