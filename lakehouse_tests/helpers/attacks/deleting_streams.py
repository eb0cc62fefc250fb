"""A stream whose table has deletes: no older record brings a deleted row back, during an attack or after it.

Its own records are in two more partitions of the topic, at hours of 2022. The older ones are in the last one: within a
partition, a later record is newer also if its time is older. So tests count the records that they send.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from pyspark.sql import SparkSession

from lakehouse.declaration import Deletes, StreamTable
from lakehouse.examples.tables import temperatures as examples
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, delete, record, unique_table
from lakehouse_tests.helpers.histories.surroundings import make_topic
from lakehouse_tests.helpers.tables.tables import Tables

temperatures_with_deletes = replace(examples.temperatures, deletes=Deletes(when=DELETES))
_FIRST_HOUR = datetime(2022, 1, 1, tzinfo=UTC)
_NEXT_YEAR = "2023"
_AGE = timedelta(days=1)  # of the records that arrive after the delete of their key


@dataclass
class DeletingStream(Stream):
    """A table under test whose rows are deleted before, during and after an attack.

    A test that loses or repeats the history of the table sets ``is_counted`` to false: its deletes are then not counted
    exactly once.
    """

    is_counted: bool = True
    sent_deletes: int = 0
    sent_by_itself: int = 0
    _turns: int = 0
    _first_turn: int = 0  # in the newest topic

    @classmethod
    def create(cls, spark: SparkSession, settings: Settings, **changes: Any) -> Self:
        """Create the topic and the tables; one row is deleted, and one key was deleted without a row."""
        partitions = changes.pop("partitions", examples.temperatures.topic_options.partitions)
        table: StreamTable = unique_table(partitions=partitions + 2, deletes=Deletes(when=DELETES), **changes)
        stream = cls(spark, settings, table)
        stream.make_topic()
        for _ in range(2):
            stream.send_deletes()
            stream.merge()
        return stream

    def make_topic(self) -> None:
        """Create the topic, in which the producer sets the time of a record."""
        replicas = len(bootstrap_servers(self.settings).split(","))
        make_topic(self.settings, self.table.topic, self.table.topic_options.partitions, replicas)
        self._first_turn = self._turns

    @property
    def own_partitions(self) -> tuple[int, int]:
        return self.table.topic_options.partitions - 2, self.table.topic_options.partitions - 1

    def send(self, *values: bytes | None, partition: int = 0, key: bytes = b"key") -> None:
        """Send values, and the next deletes."""
        super().send(*values, partition=partition, key=key)
        self.send_deletes()

    def send_deletes(self) -> None:
        """Send deletes of the last row and of a key without a row, older records of both keys, and a new row."""
        turn, now = self._turns, datetime.now(UTC)
        deleted_keys = [2 * turn + 1, *([2 * turn - 2] if turn else [])]
        partition, partition_of_older = self.own_partitions
        values = [(partition, now, delete(_hour(key))) for key in deleted_keys]
        values += [(partition_of_older, now - _AGE, record(time=_hour(key))) for key in deleted_keys]
        values.append((partition, now, record(time=_hour(2 * turn), temperature_2m=1.0)))

        async def send_all(producer: AIOKafkaProducer) -> None:
            for partition, time, value in values:
                time_ms = int(time.timestamp() * 1000)
                await producer.send_and_wait(self.table.topic, value, b"key", partition, time_ms)

        with_client(AIOKafkaProducer, self.settings, send_all, acks="all")
        self._turns += 1
        self.sent_deletes += len(deleted_keys)
        self.sent_by_itself += len(values)

    def temperatures(self) -> dict[str, float | None]:
        """Return the temperature of every hour, without those that this class sends."""
        return {time: value for time, value in super().temperatures().items() if time >= _NEXT_YEAR}

    def assert_accounted(self) -> None:
        """Check the ledger, that each deleted key has no row and a stored delete, and the counts of the deletes."""
        super().assert_accounted()
        newest_key = 2 * self._turns - 2
        own_hours = {time for time in super().temperatures() if time < _NEXT_YEAR}
        assert own_hours == {_hour(newest_key)}, "only the newest row of this class is not deleted"
        stored_deletes = Tables(self.settings, self.table).deletes()
        deleted_keys = {*range(2 * self._first_turn, newest_key + 2)} - {newest_key}
        assert {_text(time) for *_, time in stored_deletes} >= {*map(_hour, deleted_keys)}
        totals = self.ledger.totals
        assert not self.is_counted or totals.deleted + totals.deletes_without_row == self.sent_deletes


def _hour(number: int) -> str:
    return _text(_FIRST_HOUR + timedelta(hours=number))


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M}"
