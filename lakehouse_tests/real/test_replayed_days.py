"""Days are replayed in Dagster: the records of chosen days, by their time in the topic, in one recorded run."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from aiokafka import AIOKafkaProducer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.ingest.replay import find_ranges
from lakehouse.kafka import first_records, offsets_at, read_topic
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.positions import Range
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import delete_before, read_topic_records, with_client
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record, unique_table
from lakehouse_tests.helpers.dagster_runs import checks, facts
from lakehouse_tests.helpers.histories.surroundings import make_topic
from lakehouse_tests.helpers.tables.rejected import dated_by_producers
from lakehouse_tests.helpers.waiting import wait_until

FIRST_DAY = date(2023, 1, 1)
NANOSECONDS = 1_700_000_000_000_000_000  # beyond any timestamp of Spark, if they are read as milliseconds


def day(number: int) -> date:
    return FIRST_DAY + timedelta(days=number - 1)


def noon(number: int) -> datetime:
    return datetime(2023, 1, number, 12, tzinfo=UTC)


class Replays:
    """A table in Dagster with an asset to replay its days."""

    def __init__(self, stream: Stream, instance: dg.DagsterInstance) -> None:
        self.stream = stream
        self.instance = instance
        self.name = stream.table.replayed_name
        self.defs = build_defs([stream.table], {"lakehouse": LakehouseResource.with_settings(stream.settings)})

    def replay(self, first: date, last: date) -> dg.ExecuteInProcessResult:
        """Replay days in one run, as Dagster's dialog does for an asset with this policy."""
        prefix = "dagster/asset_partition_range"
        return self.defs.resolve_job_def("__ASSET_JOB").execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey(self.name)],
            tags={f"{prefix}_start": str(first), f"{prefix}_end": str(last)},
            raise_on_error=False,
        )

    def failure(self, first: date, last: date) -> str:
        """Require that a replay fails; return the text of its failure."""
        run = self.replay(first, last)
        (failure,) = [event.step_failure_data for event in run.all_events if event.is_step_failure]
        assert failure.user_failure_data
        return failure.user_failure_data.description or ""

    def metadata(self, run: dg.ExecuteInProcessResult) -> dict[str, Any]:
        return facts(run)[self.name]


@pytest.fixture
def stream(spark: SparkSession, broker: Settings) -> Stream:
    """A table whose broker dates the records."""
    return Stream.create(spark, broker, base=None, replay_from=FIRST_DAY)


@pytest.fixture
def dated_stream(spark: SparkSession, broker: Settings) -> Stream:
    """A table whose producers date the records, in a topic of two partitions."""
    stream = Stream(spark, broker, unique_table(base=None, replay_from=FIRST_DAY))
    make_topic(broker, stream.table.topic, 2)
    return stream


def send_dated(stream: Stream, *times: datetime, partition: int = 0) -> None:
    """Send a record of a new hour for each of these times in the topic, in this order."""

    async def send(producer: AIOKafkaProducer) -> None:
        for time, hour_text in zip(times, stream.hours(len(times)), strict=True):
            milliseconds = int(time.timestamp() * 1000)
            value = record(time=hour_text)
            await producer.send_and_wait(
                stream.table.topic, value, key=b"key", partition=partition, timestamp_ms=milliseconds
            )

    with_client(AIOKafkaProducer, stream.settings, send)


def days_of_records(stream: Stream) -> list[date]:
    """The UTC days of all records in the topic, without repetition."""
    records = read_topic_records(stream.settings, stream.table.topic)
    return sorted({datetime.fromtimestamp(message.timestamp / 1000, UTC).date() for message in records})


def assert_derived_follow(stream: Stream) -> None:
    """The change feed and the rollup have read every row of the merged table."""
    for name in stream.table.derived:
        derived = read_ledger(stream.settings.table_uri(name), name)
        assert Consumption(stream.ledger, derived.consumed).is_current


@pytest.mark.slow
def test_a_replay_of_days_is_recorded_and_changes_no_row(stream: Stream, instance: dg.DagsterInstance) -> None:
    for partition in (0, 1):
        stream.send(*(record(time=hour(number)) for number in range(3)), b"{", partition=partition)
    stream.merge()
    rows, files = stream.snapshot(), set(DeltaTable(stream.uri).file_uris())
    days = days_of_records(stream)
    replays = Replays(stream, instance)
    run = replays.replay(days[0] - timedelta(days=1), days[-1])
    metadata = replays.metadata(run)
    assert {name: metadata[name] for name in ("batches", "offsets_replayed", "records_read", "rows_changed")} == {
        "batches": 1,
        "offsets_replayed": 8,
        "records_read": 8,
        "rows_changed": 0,
    }
    assert metadata["days"] == f"{days[0] - timedelta(days=1)} to {days[-1]}"
    assert [row.data for row in metadata["offsets_read"].records] == [
        {"partition": partition, "start": 0, "end": 4} for partition in (0, 1)
    ]
    assert checks(run)["rows_unchanged"].passed
    newest = stream.ledger.newest
    assert newest is not None
    assert (newest.commit.kind, newest.commit.run) == ("replay", run.run_id)
    assert (stream.snapshot(), set(DeltaTable(stream.uri).file_uris())) == (rows, files)
    assert_derived_follow(stream)
    stream.assert_accounted()


@pytest.mark.slow
def test_a_day_without_records_replays_nothing(stream: Stream, instance: dg.DagsterInstance) -> None:
    stream.merge_hours(2)
    version = stream.ledger.version
    replays = Replays(stream, instance)
    run = replays.replay(day(1), day(2))
    metadata = replays.metadata(run)
    assert (metadata["batches"], metadata["offsets_replayed"], metadata["records_read"]) == (0, 0, 0)
    assert checks(run)["rows_unchanged"].passed
    assert stream.ledger.version == version
    assert_derived_follow(stream)


@pytest.mark.invariant("3.4")
def test_before_the_first_merge_there_is_nothing_to_replay(stream: Stream, instance: dg.DagsterInstance) -> None:
    assert "Nothing has been merged yet" in Replays(stream, instance).failure(day(1), day(1))


@pytest.mark.slow
def test_a_missing_row_is_merged_again_and_fails_the_check_once(stream: Stream, instance: dg.DagsterInstance) -> None:
    stream.merge_hours(3)
    stream.refresh()
    rows, days = stream.temperatures(), days_of_records(stream)
    stream.sql("DELETE FROM {t} WHERE hour(observed_at) = 1")
    assert len(stream.temperatures()) == len(rows) - 1
    replays = Replays(stream, instance)
    run = replays.replay(days[0], days[-1])
    assert replays.metadata(run)["rows_changed"] == 1
    check = checks(run)["rows_unchanged"]
    assert not check.passed
    version = stream.ledger.version
    assert f"Version {version} inserted 1, updated 0 and deleted 0 rows." in (check.description or "")
    assert f"lakehouse audit {stream.table.name}" in (check.description or "")
    assert stream.temperatures() == rows
    assert_derived_follow(stream)
    assert stream.sql("SELECT change, source_version FROM {changes} WHERE source_version >= " + str(version)) == [
        ("insert", version)
    ]
    assert checks(replays.replay(days[0], days[-1]))["rows_unchanged"].passed


@pytest.mark.slow
def test_days_by_the_time_of_producers_are_found_by_reading(dated_stream: Stream, instance: dg.DagsterInstance) -> None:
    send_dated(dated_stream, noon(2), noon(1), noon(5), noon(2), noon(9), noon(2))
    send_dated(dated_stream, noon(9), partition=1)
    dated_stream.merge(until={0: 5, 1: 1})
    context = dated_stream.context
    assert find_ranges(context, [day(1), day(2)]) == [Range(0, 0, 4)], "the last record of day 2 is not merged"
    assert find_ranges(context, [day(9), day(1)]) == [Range(0, 1, 2), Range(0, 4, 5), Range(1, 0, 1)]
    assert find_ranges(context, [day(3)]) == []
    rows = dated_stream.snapshot()
    replays = Replays(dated_stream, instance)
    run = replays.replay(day(1), day(2))
    assert (replays.metadata(run)["offsets_replayed"], replays.metadata(run)["records_read"]) == (4, 4)
    assert checks(run)["rows_unchanged"].passed
    assert dated_stream.snapshot() == rows


@pytest.mark.slow
def test_a_day_whose_records_expired_fails_with_the_sentence_of_the_gap(
    dated_stream: Stream, instance: dg.DagsterInstance
) -> None:
    send_dated(dated_stream, noon(1), noon(2), noon(3), noon(4))
    dated_stream.merge()
    delete_before(dated_stream.settings, dated_stream.table.topic, {0: 2})
    replays, version = Replays(dated_stream, instance), dated_stream.ledger.version
    for number in (1, 3):
        failure = replays.failure(day(number), day(4))
        assert f"Partition 0: records from 0 to 1 were deleted, perhaps with records of {day(number)}" in failure
        assert f"topic {dated_stream.table.topic}" in failure
        assert failure.endswith(f"Replay days from {day(4)} on.")
    assert dated_stream.ledger.version == version
    assert replays.metadata(replays.replay(day(4), day(5)))["records_read"] == 1


@pytest.mark.slow
def test_a_day_of_a_partition_that_is_empty_by_now_fails(stream: Stream, instance: dg.DagsterInstance) -> None:
    stream.merge_hours(2)
    days = days_of_records(stream)
    delete_before(stream.settings, stream.table.topic, {0: 2})
    failure = Replays(stream, instance).failure(days[0], days[-1])
    assert "Partition 0: records from 0 to 1 were deleted" in failure


@pytest.mark.slow
def test_days_are_read_if_the_topic_still_holds_times_of_producers(stream: Stream) -> None:
    """The first record is of the year 2100: an offset lookup finds it for every day before."""
    far_future = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
    with dated_by_producers(stream) as send:
        assert wait_until(lambda: read_topic(stream.settings, stream.table.topic).producer_time)
        send(far_future, record(time=hour(0)))
    assert wait_until(lambda: not read_topic(stream.settings, stream.table.topic).producer_time)
    stream.send_and_merge(record(time=hour(1)))
    days = [record_day for record_day in days_of_records(stream) if record_day.year < 2100]
    assert find_ranges(stream.context, days) == [Range(0, 1, 2)]


@pytest.mark.slow
def test_days_are_found_next_to_a_record_whose_time_is_beyond_any_timestamp(stream: Stream) -> None:
    first, last = (int(noon(number).timestamp() * 1000) for number in (1, 2))
    with dated_by_producers(stream) as send:
        assert wait_until(lambda: read_topic(stream.settings, stream.table.topic).producer_time)
        for number, milliseconds in enumerate((first, NANOSECONDS, first, last)):
            send(milliseconds, record(time=hour(number)))
        stream.merge()
        assert find_ranges(stream.context, [day(1)]) == [Range(0, 0, 3)]
        assert find_ranges(stream.context, [day(2)]) == [Range(0, 3, 4)]


def test_the_broker_finds_the_offsets_of_a_time(dated_stream: Stream) -> None:
    send_dated(dated_stream, noon(1), noon(2), noon(2), noon(4))
    settings, topic = dated_stream.settings, dated_stream.table.topic
    offsets = {number: offsets_at(settings, topic, [0, 1], noon(number)) for number in (1, 2, 3, 5)}
    assert offsets == {1: {0: 0}, 2: {0: 1}, 3: {0: 3}, 5: {}}
    records = first_records(settings, topic, [Range(0, 1, 4), Range(1, 0, 0)])
    assert {partition: record.time for partition, record in records.items()} == {0: noon(2)}
    assert records[0].producer_time


def test_the_first_record_shows_that_the_broker_set_its_time(stream: Stream) -> None:
    stream.send_hours(1)
    first = first_records(stream.settings, stream.table.topic, [Range(0, 0, 1)])[0]
    assert not first.producer_time
    assert first.time is not None
    assert [first.time.date()] == days_of_records(stream)
