"""A recorded change stream of a real database, and the rows that the database had at its end.

``python -m lakehouse_tests.helpers.databases.recording`` records it again, with PostgreSQL and Kafka Connect.
"""

import asyncio
import gzip
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from lakehouse.kafka import read_topic
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.databases import workload
from lakehouse_tests.helpers.databases.connect import Connect, connector_of
from lakehouse_tests.helpers.databases.postgres import running_postgres
from lakehouse_tests.helpers.waiting import wait_until

FILE = Path(__file__).parents[2] / "fixtures" / "change_stream.json.gz"
DATABASE = "recorded"
_MARKER = "DELETE FROM items WHERE id = -1"


def read_recording() -> tuple[list[list[list[str | None]]], dict[str, dict[str, str]]]:
    """Return the records of each partition, as key and value, and the rows of the database, as texts by key."""
    content = json.loads(gzip.decompress(FILE.read_bytes()))
    return content["partitions"], content["rows"]


def as_texts(rows: dict[tuple[str, int], dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return rows by key with every value as a text."""
    return {f"{shop} {number}": {n: str(v) for n, v in row.items()} for (shop, number), row in rows.items()}


def publish_recording(settings: Settings, topic: str) -> None:
    """Send the recorded records to the same partitions of a topic, in order."""

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers(settings), acks="all")
        await producer.start()
        try:
            for partition, records in enumerate(read_recording()[0]):
                for key, value in records:
                    encoded_parts = [part.encode() if part is not None else None for part in (value, key)]
                    await producer.send(topic, encoded_parts[0], key=encoded_parts[1], partition=partition)
            await producer.flush()
        finally:
            await producer.stop()

    asyncio.run(run())


def record() -> None:
    """Run random transactions on a new database, and write what its connector sent."""
    with tempfile.TemporaryDirectory() as folder, running_postgres() as server:
        settings = Settings(home=Path(folder), _env_file=None)
        with running_broker(settings):
            workload.create_table(server, DATABASE, has_full_identity=False)
            rng = random.Random(7)
            _run(server, workload.transactions(rng, 15, changes_large_keys=False))
            connect = Connect(settings, Path(folder), connector_of(server, DATABASE, "public.items"))
            connect.start()
            topic = workload.declaration(DATABASE).topic
            _run(server, workload.transactions(rng, 40, changes_large_keys=False))
            _run(server, iter([workload.truncate(rng)]))
            _run(server, workload.transactions(rng, 40, changes_large_keys=False))
            _run(server, iter([["INSERT INTO items (shop, id) VALUES ('a', -1)"], [_MARKER]]))
            assert wait_until(lambda: _has_marker(settings, topic), 60.0)
            content = {
                "partitions": _read(settings, topic),
                "rows": as_texts(workload.rows_of_database(server, DATABASE)),
            }
            connect.kill()
    FILE.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def _run(server: Any, transactions: Any) -> None:
    for statements in transactions:
        with server.connect(DATABASE) as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())


def _has_marker(settings: Settings, topic: str) -> bool:
    return any(
        '"op":"d"' in (value or "") and '"id":-1' in (key or "")
        for records in _read(settings, topic)
        for key, value in records
    )


def _read(settings: Settings, topic: str) -> list[list[list[str | None]]]:
    """Return the records of each partition, as key and value."""
    ends = read_topic(settings, topic).end

    async def run() -> list[list[list[str | None]]]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers(settings))
        await consumer.start()
        try:
            partitions = []
            for partition, end in ends.items():
                place = TopicPartition(topic, partition)
                consumer.assign([place])
                consumer.seek(place, 0)
                records: list[list[str | None]] = []
                while len(records) < end:
                    message = await asyncio.wait_for(consumer.getone(place), 10)
                    records.append(
                        [part.decode() if part is not None else None for part in (message.key, message.value)]
                    )
                partitions.append(records)
            return partitions
        finally:
            await consumer.stop()

    return asyncio.run(run())


if __name__ == "__main__":
    record()
