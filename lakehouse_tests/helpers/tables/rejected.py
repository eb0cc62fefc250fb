"""Records that are too hot for the declaration, and what became of them."""

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
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations.rejections import list_rejected
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.streams import Stream, record
from lakehouse_tests.helpers.tables.rows import position, rows_of

WIDER = replace(temperatures.by_name["temperature_2m"], between=(-100, 100))
HOT = 80.0
DAY = timedelta(days=1)


def wider(stream: Stream) -> Stream:
    """The same table, whose declaration lets in what was too hot."""
    return replace(stream, table=replace(stream.table, columns=[*temperatures.columns[:3], WIDER]))


def redriven(stream: Stream, reason: str | None = None) -> list[batches.Outcome]:
    """Redrive what is too hot no longer, where no broker answers: the records are in the table."""
    alone = stream.settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    return redrive.redrive(TableContext(stream.spark, alone, wider(stream).table), reason)


def end(stream: Stream) -> int:
    """The offset that the next record of the first partition gets."""
    progress = stream.ledger.progress
    return progress.positions[0] if progress else 0


def hot(stream: Stream, many: int) -> list[str]:
    """Send hours that are too hot for the declaration."""
    hours = stream.hours(many)
    stream.send(*(record(time=hour, temperature_2m=HOT) for hour in hours))
    return hours


@contextmanager
def dated_by_producers(stream: Stream) -> Iterator[Callable[[int, bytes], None]]:
    """Let producers date the records of the topic, however wrong; gives a function that sends one so dated."""
    topic = stream.table.topic
    widest = {f"message.timestamp.{side}.max.ms": str(2**63 - 1) for side in ("before", "after")}

    def send(milliseconds: int, value: bytes) -> None:
        async def sent(producer: AIOKafkaProducer) -> None:
            await producer.send_and_wait(topic, value, key=b"key", partition=0, timestamp_ms=milliseconds)

        with_client(AIOKafkaProducer, stream.settings, sent)

    def configure(configs: dict[str, str]) -> None:
        wanted = [ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)]
        with_client(AIOKafkaAdminClient, stream.settings, lambda admin: admin.alter_configs(wanted))

    configure({"message.timestamp.type": "CreateTime", **widest})
    try:
        yield send
    finally:
        configure({"message.timestamp.type": "LogAppendTime"})


def rejected_version(stream: Stream) -> int:
    """The version of the table of rejected records."""
    return read_ledger(stream.settings.table_uri(stream.table.rejected_name), stream.table.rejected_name).version


@contextmanager
def crashing(monkeypatch: pytest.MonkeyPatch, step: str) -> Iterator[None]:
    """The process ends where a batch comes to this step."""

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batches, step, crash)
        with pytest.raises(KeyboardInterrupt):
            yield


def listed(stream: Stream, since: int) -> dict[str, list[int]]:
    """The offsets from ``since`` on that are listed as rejected, newest first, by reason."""
    found = list_rejected(stream.settings, stream.table, limit=99)
    offsets = {each.reason: [sample.position for sample in each.samples if sample.position >= since] for each in found}
    return {reason: some for reason, some in offsets.items() if some}


def resolved(stream: Stream, since: int) -> list[tuple[int, int]]:
    """Offset and number of the commit of those that passed."""
    rows = rows_of(stream.settings, stream.table.rejected_name)
    found = [(position(row)[1], row["resolved_number"]) for row in rows if row["resolved_number"] is not None]
    return sorted(each for each in found if each[0] >= since)
