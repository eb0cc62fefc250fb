"""A clock that goes back: of two records of a partition, the later one is the newer one, in every way to merge."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from aiokafka import AIOKafkaProducer
from pyspark.sql import SparkSession

from lakehouse.declaration import Deletes
from lakehouse.decoding import staged
from lakehouse.ingest.order_times import _last_of_each, _last_of_few
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Range
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import delete_before, with_client
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, delete, record, unique_table
from lakehouse_tests.helpers.histories.surroundings import make_topic
from lakehouse_tests.helpers.tables.rejected import HOT
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of
from lakehouse_tests.helpers.tables.tables import column_of

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> Stream:
    """A table with deletes, in whose topic the tests set the broker's clock."""
    stream = Stream(spark, broker, unique_table(base=None, deletes=Deletes(when=DELETES)))
    make_topic(broker, stream.table.topic, 2)
    return stream


def send_at(stream: Stream, *records: tuple[int, bytes], partition: int = 0) -> None:
    """Send records, each at a number of minutes after noon by the clock of the broker."""

    async def send(producer: AIOKafkaProducer) -> None:
        for minutes, value in records:
            time = int((NOON + timedelta(minutes=minutes)).timestamp() * 1000)
            await producer.send_and_wait(stream.table.topic, value, key=b"key", partition=partition, timestamp_ms=time)

    with_client(AIOKafkaProducer, stream.settings, send)


def reading(hour: str, celsius: float) -> bytes:
    return record(time=hour, temperature_2m=celsius)


def times_of(stream: Stream, hour: str) -> tuple[datetime, datetime | None]:
    """The broker's time of the record of an hour, and its time of order."""
    (row,) = [row for row in rows_of(stream.settings, stream.table.name) if hour_of(row) == hour]
    return row["_record"]["time"], row["_record"]["order_time"]


@pytest.mark.invariant("4.9")
def test_an_update_wins_although_the_clock_went_back_within_a_batch(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    send_at(stream, (10, reading(hour, 1)), (5, reading(hour, 2)))
    (outcome,) = stream.merge()
    assert stream.temperatures()[hour] == 2
    assert outcome.entry.commit.times_back == 1
    assert times_of(stream, hour) == (NOON + timedelta(minutes=5), NOON + timedelta(minutes=10))


@pytest.mark.invariant("4.9")
def test_an_update_and_a_delete_win_although_the_clock_went_back_between_batches(stream: Stream) -> None:
    updated_hour, deleted_hour = stream.hours(2)
    send_at(stream, (20, reading(updated_hour, 1)), (20, reading(deleted_hour, 1)))
    stream.merge()
    send_at(stream, (1, reading(updated_hour, 2)), (2, delete(deleted_hour)))
    (outcome,) = stream.merge()
    assert stream.temperatures()[updated_hour] == 2 and deleted_hour not in stream.temperatures()
    assert (outcome.entry.commit.times_back, outcome.entry.stale) == (2, 0)
    send_at(stream, (3, reading(deleted_hour, 3)))
    stream.merge()
    assert stream.temperatures()[deleted_hour] == 3
    stream.assert_accounted()


@pytest.mark.invariant("3.3", "4.9")
def test_a_replay_from_the_middle_of_a_batch_changes_nothing(stream: Stream) -> None:
    first, second = stream.hours(2)
    send_at(
        stream, (40, reading(first, 1)), (30, reading(second, 1)), (25, reading(second, 2)), (26, reading(first, 2))
    )
    (outcome,) = stream.merge()
    (part,) = (part for part in outcome.entry.commit.ranges if part.span)
    send_at(stream, (45, record()))
    stream.merge()
    rows = stream.snapshot()
    replay(stream.context, [Range(part.partition, part.start + 2, part.end)])
    assert stream.snapshot() == rows
    assert (stream.temperatures()[first], stream.temperatures()[second]) == (2, 2)
    assert times_of(stream, first) == (NOON + timedelta(minutes=26), NOON + timedelta(minutes=40))


@pytest.mark.slow
@pytest.mark.invariant("8.12", "4.9")
def test_a_rejected_record_keeps_the_time_that_orders_it(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    send_at(stream, (80, reading(hour, 1)), (70, reading(hour, HOT)))
    stream.merge()
    ((time, order_time),) = stream.sql("SELECT time, order_time FROM {rejected} WHERE resolved_number IS NULL")
    assert order_time - time == timedelta(minutes=10)
    column = replace(column_of(stream.table, "temperature_2m"), between=(-100, HOT))
    table = replace(stream.table, columns=[*stream.table.record_columns[:3], column])
    corrected_stream = replace(stream, table=table)
    redrive(corrected_stream.context)
    assert corrected_stream.temperatures()[hour] == HOT


@pytest.mark.invariant("4.9")
def test_the_order_is_total_over_partitions(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    send_at(stream, (100, record()), (90, reading(hour, 1)), partition=0)
    send_at(stream, (95, reading(hour, 2)), partition=1)
    stream.merge()
    assert stream.temperatures()[hour] == 1, "it is ordered as if it was sent 100 minutes after noon"


@pytest.mark.invariant("3.3", "4.9")
def test_a_replay_of_a_batch_whose_beginning_has_expired_keeps_the_order(stream: Stream) -> None:
    first, second = stream.hours(2)
    send_at(stream, (130, reading(first, 1)), (120, reading(second, 1)), (119, reading(second, 2)))
    (outcome,) = stream.merge()
    (part,) = (part for part in outcome.entry.commit.ranges if part.span)
    send_at(stream, (125, reading(second, 3)))
    stream.merge()
    delete_before(stream.settings, stream.table.topic, {part.partition: part.start + 1})
    replay(stream.context, [Range(part.partition, part.start + 1, part.end)])
    assert (stream.temperatures()[first], stream.temperatures()[second]) == (1, 3)


def test_the_broker_s_own_time_stays_that_of_the_record(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    send_at(stream, (140, reading(hour, 1)))
    stream.merge()
    assert times_of(stream, hour) == (NOON + timedelta(minutes=140), None)


@pytest.mark.invariant("4.9")
def test_spark_finds_the_same_last_records_as_this_process(spark: SparkSession) -> None:
    times = {0: [4, 4, 7, 7, 9], 1: [5, 3, 8], 2: [1], 3: [2, 6, 6, 2]}
    places = [(p, position, time) for p, series in times.items() for position, time in enumerate(series)]
    rows = ", ".join(f"({p}, {position}L, timestamp_micros({time}), {p + position}L)" for p, position, time in places)
    names = (staged.PARTITION, staged.POSITION, staged.TIME, staged.CHECKSUM)
    records = spark.sql(f"SELECT * FROM VALUES {rows} AS ({', '.join(names)})")
    few = [
        {staged.PARTITION: p, staged.POSITION: position, "time": time, staged.CHECKSUM: p + position}
        for p, position, time in places
    ]
    found_rows = sorted((row.asDict() for row in _last_of_each(records).collect()), key=lambda row: row["_partition"])
    assert found_rows == _last_of_few(few)
    assert [row["went_back"] for row in found_rows] == [False, True, False, True]
