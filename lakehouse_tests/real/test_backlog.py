"""Fast paths of a backlog give the same result as slow ones: split ranges, and single rows without comparison."""

from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Column
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.newest_per_key import newest_per_key
from lakehouse.kafka import read, read_records, read_topic
from lakehouse.ledger.planning import plan_batch
from lakehouse.ledger.positions import Range, SourceId
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.brokers.streams import Stream, counts, record

TASK = "_task"


def send_with_holes(broker: Settings, topic: str) -> list[bytes]:
    """Fill partition 0 with transactions and abort every second one, also the last; return the committed values."""
    committed_values = [b"%d" % number for number in range(60)]

    async def transact(producer: AIOKafkaProducer) -> None:
        for start in range(0, 60, 20):
            for end, values in (
                (producer.commit_transaction, committed_values[start : start + 20]),
                (producer.abort_transaction, [b"aborted"] * 20),
            ):
                await producer.begin_transaction()
                for value in values:
                    await producer.send(topic, value, partition=0)
                await end()

    with_client(AIOKafkaProducer, broker, transact, transactional_id=topic)
    return committed_values


@pytest.mark.invariant("2.1", "2.3")
def test_ranges_split_for_reading_give_the_same_records_across_holes(
    spark: SparkSession, broker: Settings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed_values = send_with_holes(broker, topic)
    plan = plan_batch(read_topic(broker, topic), None)
    partial_plan = replace(plan, ranges=(Range(0, 5, plan.ranges[0].end - 30),))

    def read_rows(offsets_per_task: int, tested_plan: Any) -> tuple[list[Any], int]:
        monkeypatch.setattr(read, "OFFSETS_A_TASK", offsets_per_task)
        rows = read_records(spark, broker, tested_plan).withColumn(TASK, F.spark_partition_id()).collect()
        values = sorted((row._position, bytes(row._value), row._time) for row in rows)
        return values, len({row[TASK] for row in rows})

    for tested_plan in (plan, partial_plan):
        whole_records, whole_tasks = read_rows(1_000_000, tested_plan)
        split_records, split_tasks = read_rows(7, tested_plan)  # some tasks read no committed record
        assert split_records == whole_records
        assert whole_tasks == 1 < split_tasks
    assert [value for _, value, _ in read_rows(7, plan)[0]] == committed_values


@pytest.mark.invariant("2.3", "7.1")
@pytest.mark.slow
def test_a_batch_without_records_is_accounted_for(spark: SparkSession, broker: Settings) -> None:
    stream = Stream.create(spark, broker)

    async def transact(producer: AIOKafkaProducer) -> None:
        for end in (producer.abort_transaction, producer.commit_transaction):
            await producer.begin_transaction()
            await producer.send_and_wait(stream.table.topic, record(), partition=0)
            await end()

    with_client(AIOKafkaProducer, broker, transact, transactional_id=stream.table.topic)
    assert [counts(outcome.entry)["read"] for outcome in stream.merge(max_records=2)] == [0, 1]
    stream.assert_accounted()


def test_single_rows_of_a_key_are_stored_the_same_with_and_without_comparison(spark: SparkSession) -> None:
    columns = [*temperatures.columns, Column("revision", "INT", doc="Version.")]
    table = replace(temperatures, columns=columns, version=BY_REVISION)
    values = "(1, 20.5D, 7), (2, NULL, 8), (3, NULL, NULL), (4, -1D, NULL)"

    def newest_rows(rows: DataFrame, *, has_unique_keys: bool) -> tuple[Any, ...]:
        newest = newest_per_key(rows, table, SourceId("kafka", "c/t"), has_unique_keys=has_unique_keys)
        return sorted(map(str, newest.collect())), newest.dtypes

    for offset in ("number", "NULL"):  # records, base rows
        rows = spark.sql(
            "SELECT CAST(number AS DECIMAL(9,6)) AS latitude, CAST(0 AS DECIMAL(9,6)) AS longitude,"
            " TIMESTAMP'2023-01-01' AS observed_at, DATE'2023-01-01' AS observed_month, temperature_2m, revision,"
            f" IF({offset} IS NULL, NULL, TIMESTAMP'2026-01-01') AS _time,"
            f" CAST(NULL AS TIMESTAMP) AS _order_time, CAST({offset} AS INT) AS _partition,"
            f" CAST({offset} AS BIGINT) AS _position, CAST(NULL AS BIGINT) AS _sequence,"
            f" IF({offset} IS NULL, 3L, NULL) AS _base"
            f" FROM VALUES {values} AS (number, temperature_2m, revision)"
        )
        assert newest_rows(rows, has_unique_keys=True) == newest_rows(rows, has_unique_keys=False)
