"""Few records over many partitions, read by one client: Spark's source opens a client for each partition in turn."""

import logging
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from lakehouse.kafka.batch_limits import batches_limited
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.newest_records import Record, to_record
from lakehouse.kafka.timeless import ROOM, is_exact_in_spark, size_of
from lakehouse.ledger.positions import Plan
from lakehouse.settings import Settings

MANY_PARTITIONS = 3
FEW_POSITIONS = 10_000
_POLL_MS = 50  # also how long a broker waits for records of partitions that have been read
_LIMIT = 10.0  # seconds
_log = logging.getLogger(__name__)


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
