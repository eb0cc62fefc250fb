"""A topic and its tables for one test: send records, merge them and read the rows."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from aiokafka import AIOKafkaProducer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.declaration import FieldIs, StreamTable
from lakehouse.derived import refresh
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches
from lakehouse.ingest.batches import Request
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.replay import replay
from lakehouse.kafka import create_topic
from lakehouse.ledger.audit import audit
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.operations import repair
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of
from lakehouse_tests.helpers.tables.tables import redeclare

BASE_RECORD = {"latitude": 13.0, "longitude": 77.600006, "time": "2023-01-01T00:00", "temperature_2m": 20.0}
ABSENT = object()
DELETES = FieldIs("operation", ["DELETE"])  # the rule of tables with deletes


def record(**overrides: Any) -> bytes:
    """Encode a valid record; a test passes only the fields that matter. ``ABSENT`` omits a field."""
    fields = {**BASE_RECORD, **overrides}
    return json.dumps({name: value for name, value in fields.items() if value is not ABSENT}).encode()


def delete(time: str) -> bytes:
    """Encode the delete of an hour, in a table whose rule is ``DELETES``."""
    return record(time=time, temperature_2m=ABSENT, operation="DELETE")


def hour(number: int) -> str:
    return f"2023-01-{1 + number // 24:02d}T{number % 24:02d}:00"


def unique_table(**changes: Any) -> StreamTable:
    """Return the temperatures table with a new name and a new topic."""
    name = f"t_{uuid4().hex[:12]}"
    rollups = [replace(rollup, name=f"{name}_by_location") for rollup in temperatures.rollups]
    return redeclare(temperatures, **{"name": name, "topic": name, "rollups": rollups, **changes})


def send(
    settings: Settings, topic: str, values: Sequence[bytes | None], partition: int = 0, key: bytes = b"key"
) -> None:
    """Write values into one partition in order, and wait until all in-sync replicas have stored them."""

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers(settings), acks="all")
        await producer.start()
        try:
            acknowledgements = [await producer.send(topic, value, key=key, partition=partition) for value in values]
            for acknowledgement in acknowledgements:
                await acknowledgement
        finally:
            await producer.stop()

    asyncio.run(run())


def accept_gap(context: TableContext) -> Entry:
    """Accept the gap of a table."""
    gap = repair.propose_gap(context.settings, context.table)
    assert gap, "no record is missing"
    return repair.record(context, gap)


@dataclass
class Stream:
    """A table under test with a topic on a real broker; several tests may share its history."""

    spark: SparkSession
    settings: Settings
    table: StreamTable
    _used_hours: int = 0

    @classmethod
    def create(cls, spark: SparkSession, settings: Settings, **changes: Any) -> Self:
        return cls.of(spark, settings, unique_table(**changes))

    @classmethod
    def of(cls, spark: SparkSession, settings: Settings, table: StreamTable) -> Self:
        """Create the topic of a table, and return its stream."""
        create_topic(settings, table)
        return cls(spark, settings, table)

    def hours(self, count: int) -> list[str]:
        """Return hours that no test of this history has used."""
        self._used_hours += count
        return [hour(number) for number in range(self._used_hours - count, self._used_hours)]

    def send_hours(self, count: int, partition: int = 0) -> list[str]:
        """Send one record for each of several new hours; return the hours."""
        hours = self.hours(count)
        self.send(*(record(time=time) for time in hours), partition=partition)
        return hours

    def merge_hours(self, count: int, partition: int = 0) -> list[str]:
        """Send one record for each of several new hours, and merge all that waits; return the hours."""
        hours = self.send_hours(count, partition)
        self.merge()
        return hours

    def send(self, *values: bytes | None, partition: int = 0, key: bytes = b"key") -> None:
        send(self.settings, self.table.topic, values, partition, key)

    def merge(self, max_records: int | None = None, **request: Any) -> list[Outcome]:
        return batches.merge_all(self.context, Request(max_records, **request))

    def send_and_merge(self, *values: bytes | None, partition: int = 0, key: bytes = b"key") -> list[Outcome]:
        self.send(*values, partition=partition, key=key)
        return self.merge()

    def send_and_refresh(self, *values: bytes | None) -> tuple[Any, Any]:
        """Send and merge values, and refresh the derived tables."""
        self.send_and_merge(*values)
        return self.refresh()

    def replay(self, **request: Any) -> list[Outcome]:
        return replay(self.context, None, Request(**request))

    def accept_gap(self) -> Entry:
        """Accept the gap, as a user does who confirms it."""
        return accept_gap(self.context)

    @property
    def context(self) -> TableContext:
        return TableContext(self.spark, self.settings, self.table)

    @property
    def uri(self) -> str:
        return self.settings.table_uri(self.table.name)

    @property
    def ledger(self) -> Ledger:
        return read_ledger(self.uri, self.table.name, whole=True)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement with the placeholders {t}, {rejected}, {changes} and {rollup} for the tables."""
        names = {"t": self.table.name, "rejected": self.table.rejected_name, "changes": self.table.changes_name}
        names["rollup"] = self.table.rollups[0].name
        tables = {placeholder: f"delta.`{self.settings.table_uri(name)}`" for placeholder, name in names.items()}
        return [tuple(row) for row in self.spark.sql(statement.format(**tables)).collect()]

    def temperatures(self) -> dict[str, float | None]:
        """Return the temperature of every hour in the table."""
        rows = [(hour_of(row), row["temperature_2m"]) for row in rows_of(self.settings, self.table.name)]
        assert len(rows) == len(dict(rows)), "a key has two rows"
        return dict(rows)

    def snapshot(self) -> list[tuple[Any, ...]]:
        """Return every column of every row, ordered by the key of the temperatures."""
        return self.snapshot_of("latitude, longitude, observed_at")

    def snapshot_of(self, key: str) -> list[tuple[Any, ...]]:
        """Return every column of every row, ordered by a key."""
        return self.sql(f"SELECT * FROM {{t}} ORDER BY {key}")

    def rejected(self) -> list[tuple[Any, ...]]:
        return self.sql(
            "SELECT position.partition, position.position, reason FROM {rejected}"
            " WHERE resolved_number IS NULL ORDER BY 1, 2"
        )

    def refresh(self) -> tuple[Any, Any]:
        rollup = self.table.rollups[0]
        return (
            refresh.refresh_changes(self.context),
            refresh.refresh_rollup(self.context, rollup),
        )

    def assert_accounted(self) -> None:
        failed_checks = [finding for finding in audit(self.ledger) if not finding.passed]
        assert not failed_checks


def counts(entry: Entry) -> dict[str, int]:
    """Return the accounting of one commit."""
    commit, metrics = entry.commit, entry.metrics
    return {
        "read": commit.read,
        "rejected": commit.rejected,
        "superseded": commit.superseded,
        "inserted": metrics.inserted,
        "updated": metrics.updated,
        "stale": entry.stale,
    }


def clean_log(uri: str) -> None:
    """Delete the log except its newest commit and a checkpoint, as log retention does."""
    table = DeltaTable(uri)
    table.create_checkpoint()
    for file in Path(uri, "_delta_log").glob("*.json"):
        if int(file.stem) < table.version():
            file.unlink()
