"""A streaming query feeds a table: its checkpoint, its rows and its errors cannot make the table wrong."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Topics
from lakehouse.errors import LakehouseError, TopicError
from lakehouse.kafka import create_topic
from lakehouse.operations.foreach_batch import foreach_batch
from lakehouse.settings import Settings
from lakehouse.spark.own_session import is_classic
from lakehouse_tests.helpers.brokers.clients import delete_before, with_client
from lakehouse_tests.helpers.brokers.queries import merger, micro_batch, run_query, start_query
from lakehouse_tests.helpers.brokers.streams import Stream, record, send, unique_table
from lakehouse_tests.helpers.tables.tables import redeclare
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.usefixtures("_classic_session")
BEFORE, EARLIER = "merged or left out before, and not merged again", "records before the micro-batch are merged too"


@pytest.fixture(scope="module")
def _classic_session(spark: SparkSession) -> None:
    if not is_classic(spark):
        pytest.skip("foreach_batch needs a classic session")


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> Stream:
    """A table whose topic each test leaves merged."""
    stream = Stream.create(spark, broker, base=None, partitions=2)
    stream.merge_hours(3)
    return stream


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.getMessage() for entry in caplog.records if entry.name.endswith("foreach_batch")]


def progress(stream: Stream) -> dict[int, int]:
    assert stream.ledger.progress
    return dict(stream.ledger.progress.positions)


@pytest.mark.invariant("7.9")
def test_a_query_gives_the_table_of_a_merge(spark: SparkSession, broker: Settings, tmp_path: Path) -> None:
    stream = Stream.create(spark, broker, base=None, partitions=2)
    merged = replace(stream, table=redeclare(unique_table(base=None), topic=stream.table.topic))
    hours = stream.send_hours(5)
    stream.send(record(time=hours[0], temperature_2m=7.0), b"{", record(time=hours[0], temperature_2m=8.0), partition=1)
    run_query(stream, tmp_path / "checkpoint", foreach_batch(stream.table, stream.settings), maxOffsetsPerTrigger=3)
    merged.merge()
    assert (stream.temperatures(), stream.rejected()) == (merged.temperatures(), merged.rejected())
    assert stream.temperatures()[hours[0]] == 8.0
    assert progress(stream) == progress(merged) == {0: 5, 1: 3}
    assert [entry.commit.kind for entry in stream.ledger.entries].count("batch") == 3
    assert stream.sql("SELECT count(DISTINCT observed_at) FROM {changes}") == [(5,)]
    stream.assert_accounted()


@pytest.mark.invariant("1.2", "2.10", "3.1")
def test_a_lost_checkpoint_is_a_replay_that_is_named_and_changes_nothing(
    stream: Stream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hours = stream.send_hours(2, partition=1)
    before = progress(stream)
    run_query(stream, tmp_path / "first")
    assert f"partition 0: offsets 0 to {before[0] - 1}" in warnings(caplog)[0]
    assert {*hours} <= stream.temperatures().keys()
    version, rows = stream.ledger.version, stream.snapshot()
    caplog.clear()
    run_query(stream, tmp_path / "second")
    (warning,) = warnings(caplog)
    assert BEFORE in warning
    assert f"partition 0: offsets 0 to {before[0] - 1}; partition 1: offsets 0 to {before[1] + 1}" in warning
    assert (stream.ledger.version, stream.snapshot()) == (version, rows)
    caplog.clear()
    more_hours = stream.send_hours(1)
    run_query(stream, tmp_path / "first")
    assert {*more_hours} <= stream.temperatures().keys()
    assert warnings(caplog) == [], "a checkpoint that is used again continues"


@pytest.mark.invariant("2.10", "7.9")
def test_records_before_the_start_of_a_query_are_merged_and_named(
    stream: Stream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    earlier_hours, first = stream.send_hours(3), progress(stream)[0]
    later_hours = stream.send_hours(2)
    starting_offsets = f'{{"{stream.table.topic}": {{"0": {first + 3}, "1": -1}}}}'
    run_query(stream, tmp_path / "checkpoint", startingOffsets=starting_offsets)
    (warning,) = warnings(caplog)
    assert f"{EARLIER}: partition 0: offsets {first} to {first + 2}" in warning
    assert {*earlier_hours, *later_hours} <= stream.temperatures().keys()
    stream.assert_accounted()


def test_a_partition_that_the_query_does_not_read_stays_unmerged(stream: Stream, tmp_path: Path) -> None:
    hours, other_hours = stream.send_hours(1), stream.send_hours(1, partition=1)
    run_query(stream, tmp_path / "checkpoint", assign=f'{{"{stream.table.topic}": [0]}}')
    assert {*hours} <= stream.temperatures().keys()
    assert not {*other_hours} & stream.temperatures().keys()
    run_query(stream, tmp_path / "all")
    assert {*other_hours} <= stream.temperatures().keys()


@pytest.mark.invariant("2.10")
def test_records_that_the_query_drops_are_merged(stream: Stream) -> None:
    hours = stream.send_hours(4)
    end = progress(stream)[0] + 4
    merger(stream)(micro_batch(stream).where("offset % 2 = 1 OR offset = 0").where(f"offset < {end}"), 0)
    last_offset = end - 1 if end % 2 == 0 else end - 2
    assert progress(stream)[0] == last_offset + 1
    assert len({*hours} & stream.temperatures().keys()) == 4 - (end % 2)
    stream.merge()


@pytest.mark.invariant("9.1", "9.6")
def test_expired_records_stop_the_query_until_the_gap_is_accepted(
    spark: SparkSession, broker: Settings, tmp_path: Path
) -> None:
    stream = Stream.create(spark, broker, base=None, partitions=1)
    stream.send_hours(2)
    run_query(stream, tmp_path / "checkpoint")
    stream.send_hours(2)
    delete_before(stream.settings, stream.table.topic, {0: 3})
    with pytest.raises(StreamingQueryException, match="Partition 0: records from 2 to 2 were deleted"):
        run_query(stream, tmp_path / "checkpoint", failOnDataLoss="false")
    stream.accept_gap()
    run_query(stream, tmp_path / "checkpoint", failOnDataLoss="false")
    assert (progress(stream), len(stream.temperatures())) == ({0: 4}, 3)
    stream.assert_accounted()


@pytest.mark.invariant("2.1", "2.11")
def test_records_of_open_and_aborted_transactions_are_not_merged(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    merge, (open_hour, aborted_hour, committed_hour) = merger(stream), stream.hours(3)
    topic = stream.table.topic

    async def run_transactions(producer: AIOKafkaProducer) -> None:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, record(time=aborted_hour), partition=1)
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(topic, record(time=committed_hour), partition=1)
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(topic, record(time=open_hour), partition=1)
        await asyncio.to_thread(lambda: merge(micro_batch(stream), 0))
        assert {open_hour, aborted_hour, committed_hour} & stream.temperatures().keys() == {committed_hour}
        assert "open transaction" in warnings(caplog)[-1]
        end = (await producer.send_and_wait(topic, record(time=open_hour), partition=1)).offset
        await asyncio.to_thread(lambda: merge(micro_batch(stream).where(f"offset = {end}"), 0))
        assert "open transaction" in warnings(caplog)[-1], "also before the micro-batch"
        assert stream.ledger.newest
        assert stream.ledger.newest.commit.kind == "wait"
        await producer.commit_transaction()

    with_client(AIOKafkaProducer, stream.settings, run_transactions, transactional_id=topic)
    caplog.clear()
    merge = merger(stream)
    merge(micro_batch(stream).where("false"), 1)
    assert open_hour in stream.temperatures(), "also without a record, in a new process"
    stream.send_hours(1, partition=1)
    merge(micro_batch(stream).where(f"partition = 1 AND offset > {progress(stream)[1]}"), 2)
    assert warnings(caplog) == [], "the marker of a transaction is not a record before the micro-batch"
    stream.assert_accounted()


@pytest.mark.invariant("2.10")
def test_a_query_that_is_stopped_during_a_merge_continues(
    spark: SparkSession, broker: Settings, tmp_path: Path
) -> None:
    stream = Stream.create(spark, broker, base=None, partitions=1)
    hours = stream.send_hours(6)
    query = start_query(stream, tmp_path / "checkpoint", ends=False, maxOffsetsPerTrigger=1)
    try:
        assert wait_until(lambda: stream.ledger.totals.read >= 2 or not query.isActive, 120)
    finally:
        query.stop()
    assert query.exception() is None
    run_query(stream, tmp_path / "checkpoint")
    assert (progress(stream), {*stream.temperatures()}) == ({0: 6}, {*hours})
    stream.assert_accounted()


@pytest.mark.invariant("11.1")
def test_two_queries_at_once_merge_each_record_once(stream: Stream, tmp_path: Path) -> None:
    first, read_before = progress(stream)[0], stream.ledger.totals.read
    hours = stream.send_hours(6)
    queries = [start_query(stream, tmp_path / name, maxOffsetsPerTrigger=5) for name in ("first", "second")]
    stream.merge(until={0: first + 2})
    assert all(query.awaitTermination(120) for query in queries)
    assert {*hours} <= stream.temperatures().keys()
    assert stream.ledger.totals.read == read_before + 6
    stream.assert_accounted()


def test_a_query_over_another_topic_is_refused(stream: Stream, spark: SparkSession, broker: Settings) -> None:
    other_stream = Stream.create(spark, broker, base=None)
    other_stream.send_hours(1)
    version = stream.ledger.version
    with pytest.raises(
        TopicError, match=f"reads topic '{other_stream.table.topic}', which table {stream.table.name} does"
    ):
        merger(stream)(micro_batch(other_stream), 0)
    assert stream.ledger.version == version


@pytest.mark.parametrize(
    ("column", "value", "fact"),
    [
        ("timestamp", "TIMESTAMP '2020-01-01 00:00:00'", "another record at offset"),
        pytest.param("offset", "1000000L", "no offset 1000000 in partition 0, which ends at", marks=pytest.mark.slow),
        pytest.param("partition", "9", "no partition 9", marks=pytest.mark.slow),
    ],
)
def test_a_query_over_another_cluster_is_refused(stream: Stream, column: str, value: str, fact: str) -> None:
    """Double: a micro-batch as the broker of another cluster gives it."""
    stream.send_hours(1)
    version = stream.ledger.version
    records = micro_batch(stream).where(f"partition = 0 AND offset = {progress(stream)[0]}")
    with pytest.raises(TopicError, match=fact):
        merger(stream)(records.withColumn(column, F.expr(value)), 0)
    assert stream.ledger.version == version
    stream.merge()


@pytest.mark.slow
def test_a_time_that_spark_shifts_is_the_same_record(stream: Stream, broker: Settings) -> None:
    configs = {"message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": str(2**63 - 1)}
    topic = NewTopic(unique_table().topic, 1, 1, topic_configs=configs)
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.create_topics([topic]))
    old_stream = replace(stream, table=redeclare(unique_table(base=None), topic=topic.name))

    async def send_old(producer: AIOKafkaProducer) -> None:
        value = record(time="2023-01-01T00:00")
        await producer.send_and_wait(topic.name, value, timestamp_ms=-14_000_000_000_000)  # in 1526

    with_client(AIOKafkaProducer, broker, send_old)
    merger(old_stream)(micro_batch(old_stream), 0)
    assert progress(old_stream) == {0: 1}


def test_columns_that_the_query_changed_are_refused(stream: Stream) -> None:
    records = micro_batch(stream).selectExpr("CAST(value AS STRING)", "topic", "partition", "offset", "1 AS extra")
    with pytest.raises(LakehouseError) as failure:
        merger(stream)(records, 0)
    text = "key is missing; value is STRING, expected BINARY; timestamp is missing; extra is not one of them"
    assert text in failure.value.what
    with pytest.raises(LakehouseError, match="topic, partition, offset or timestamp is NULL"):
        merger(stream)(micro_batch(stream).withColumn("topic", F.expr("CAST(NULL AS STRING)")), 0)


def test_each_topic_of_a_table_is_merged_as_far_as_the_query_has_come(
    spark: SparkSession, broker: Settings, tmp_path: Path
) -> None:
    topics = [unique_table().name, unique_table().name]
    table = unique_table(base=None, source=Topics(topics))
    stream = Stream(spark, broker, table)
    for topic, hour_text in zip(topics, stream.hours(2), strict=True):
        create_topic(broker, table.in_topic(topic))
        send(broker, topic, [record(time=hour_text)])
    run_query(stream, tmp_path / "checkpoint", subscribe=",".join(topics))
    assert len(stream.temperatures()) == 2
    stream.assert_accounted()


@pytest.mark.slow
def test_a_log_table_gets_each_record_once(log_stream: Stream, tmp_path: Path) -> None:
    log_stream.send_hours(3)
    for name in ("first", "second"):
        run_query(log_stream, tmp_path / name)
    assert log_stream.sql("SELECT count(*) FROM {t}") == [(3,)]
    log_stream.assert_accounted()
