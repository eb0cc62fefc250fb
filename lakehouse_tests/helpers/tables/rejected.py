"""Records that are too hot for the declaration: reject, list and redrive them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches, redrive
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations.rejections import list_rejected
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.streams import Stream, record
from lakehouse_tests.helpers.tables.rows import position, rows_of
from lakehouse_tests.helpers.tables.tables import column_of

WIDER = replace(column_of(temperatures, "temperature_2m"), between=(-100, 100))
HOT = 80.0
DAY = timedelta(days=1)


def wider(stream: Stream) -> Stream:
    """Return the same table with a declaration that accepts these temperatures."""
    return replace(stream, table=replace(stream.table, columns=[*temperatures.columns[:3], WIDER]))


def redrive_records(stream: Stream, reason: str | None = None) -> list[Outcome]:
    """Redrive with the wider declaration and without a broker, because the records are in the table."""
    settings = stream.settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    return redrive.redrive(TableContext(stream.spark, settings, wider(stream).table), reason)


@contextmanager
def redrive_around(stream: Stream) -> Iterator[None]:
    """Merge or redrive all records before and after a test; the history accounts for every record."""
    stream.merge()
    yield
    redrive_records(stream)
    stream.merge()
    stream.assert_accounted()


def end(stream: Stream) -> int:
    """Return the offset of the next record of the first partition."""
    progress = stream.ledger.progress
    return progress.positions[0] if progress else 0


def hot(stream: Stream, count: int) -> list[str]:
    """Send records that are too hot for the declaration; return their hours."""
    hours = stream.hours(count)
    stream.send(*(record(time=hour, temperature_2m=HOT) for hour in hours))
    return hours


@contextmanager
def dated_by_producers(stream: Stream) -> Iterator[Callable[[int, bytes], None]]:
    """Let producers set any time of their records; yield a function that sends a record with a given time."""
    topic = stream.table.topic
    widest_limits = {f"message.timestamp.{side}.max.ms": str(2**63 - 1) for side in ("before", "after")}

    def send(milliseconds: int, value: bytes) -> None:
        async def send_record(producer: AIOKafkaProducer) -> None:
            await producer.send_and_wait(topic, value, key=b"key", partition=0, timestamp_ms=milliseconds)

        with_client(AIOKafkaProducer, stream.settings, send_record)

    def configure(configs: dict[str, str]) -> None:
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)]
        with_client(AIOKafkaAdminClient, stream.settings, lambda admin: admin.alter_configs(resources))

    configure({"message.timestamp.type": "CreateTime", **widest_limits})
    try:
        yield send
    finally:
        configure({"message.timestamp.type": "LogAppendTime"})


def rejected_version(stream: Stream) -> int:
    """Return the version of the table of rejected records."""
    return read_ledger(stream.settings.table_uri(stream.table.rejected_name), stream.table.rejected_name).version


@contextmanager
def crashing(monkeypatch: pytest.MonkeyPatch, step: str) -> Iterator[None]:
    """Simulate the death of the process at this step of a batch."""

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batches, step, crash)
        with pytest.raises(KeyboardInterrupt):
            yield


def list_rejections(stream: Stream, since: int) -> dict[str, list[int]]:
    """Return the rejected offsets from ``since`` on, newest first, by reason."""
    groups = list_rejected(stream.settings, stream.table, limit=99)
    offsets = {
        group.reason: [sample.position for sample in group.samples if sample.position >= since] for group in groups
    }
    return {reason: positions for reason, positions in offsets.items() if positions}


def list_resolutions(stream: Stream, since: int) -> list[tuple[int, int]]:
    """Return the offsets of resolved records from ``since`` on, with the numbers of the resolving commits."""
    rows = rows_of(stream.settings, stream.table.rejected_name)
    resolutions = [(position(row)[1], row["resolved_number"]) for row in rows if row["resolved_number"] is not None]
    return sorted(resolution for resolution in resolutions if resolution[0] >= since)
