"""Brokers that are killed, hang or lose the leader of a partition while records are read or sent."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Deletes
from lakehouse.errors import BrokerError
from lakehouse.ingest import batches
from lakehouse.kafka import TopicState, publish, read_topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.deleting_streams import DeletingStream
from lakehouse_tests.helpers.brokers.clients import read_topic_records
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, delete, hour, record
from lakehouse_tests.helpers.tables.tables import Tables

PARTITIONS = 4  # more than the cores of the session, so that some are read later
READ_LIMIT = 45.0  # seconds within which a read from a hanging broker ends
HOURS = [hour(number) for number in range(40)]
LINES = [
    record(time=hour(number % 240), temperature_2m=float(number % 60)) if number % 7 else delete(hour(number % 240))
    for number in range(6_000)
]


def create_filled_topic(spark: SparkSession, settings: Settings) -> DeletingStream:
    """Create a topic with records in every partition; none but those of deletes before is merged."""
    stream = DeletingStream.create(spark, settings, partitions=PARTITIONS)
    fill_partitions(stream)
    return stream


def fill_partitions(stream: Stream) -> None:
    """Send one record for each hour; an hour always goes to the same partition."""
    for partition in range(PARTITIONS):
        stream.send(*(record(time=time) for time in HOURS[partition::PARTITIONS]), partition=partition)


def assert_holds(stream: Stream, hours: list[str]) -> None:
    """The table holds these hours and nothing else, and its history accounts for them."""
    assert set(stream.temperatures()) == set(hours)
    stream.assert_accounted()


def retry_once(work: Callable[[], Any]) -> Any:
    """Do the work, and repeat it once after a broker error."""
    try:
        return work()
    except BrokerError:
        return work()


@pytest.mark.invariant("1.17")
@pytest.mark.parametrize("turn", range(5))
def test_a_broker_killed_and_restarted_during_a_read_loses_no_record(spark, fragile_broker, attack, interference, turn):
    stream = create_filled_topic(spark, fragile_broker.settings)
    interfere = interference.while_one_client_reads if turn % 2 else interference.while_reading
    merged_count = stream.ledger.totals.read
    with attack("Nothing is lost", "broker killed and restarted while records are read"):
        kill_marker = interfere(fragile_broker.embedded.pid, signal.SIGKILL)
        with fragile_broker.restarted_when_dead():
            outcomes = retry_once(stream.merge)
        assert kill_marker.exists()
        read_count = sum(outcome.entry.commit.read for outcome in outcomes)
        assert read_count == len(HOURS) + stream.sent_by_itself - merged_count
        assert_holds(stream, HOURS)


@pytest.mark.parametrize("turn", range(5))
def test_a_broker_killed_and_restarted_during_a_publish_loses_no_record(spark, fragile_broker, attack, turn):
    stream = Stream.create(spark, fragile_broker.settings, deletes=Deletes(when=DELETES))
    with attack("Nothing is lost", "broker killed and restarted while records are sent"):
        with fragile_broker.restarted_when_dead():
            sent_count = publish(
                fragile_broker.settings, stream.table, interrupted_lines(lambda: fragile_broker.signal(signal.SIGKILL))
            )
        assert_sent_and_merged(stream, sent_count)


def interrupted_lines(action: Callable[[], object]) -> Iterator[bytes]:
    """Yield the lines to send, and run the action in the middle of them."""
    for number, line in enumerate(LINES):
        if number == len(LINES) // 2:
            action()
        yield line


def assert_sent_and_merged(stream: Stream, sent_count: int) -> None:
    """Every line is in the topic once, and the last line of each hour is in the table, unless it is a delete."""
    assert sent_count == len(LINES)
    values = [stored_record.value for stored_record in read_topic_records(stream.settings, stream.table.topic)]
    assert Counter(values) == Counter(LINES)
    stream.merge()
    last_numbers = {hour(number % 240): number for number in range(len(LINES))}
    assert stream.temperatures() == {time: float(n % 60) for time, n in last_numbers.items() if n % 7}
    assert len(Tables(stream.settings, stream.table).deletes()) == len(last_numbers), "each hour was deleted"
    stream.assert_accounted()


def test_every_request_to_a_hanging_broker_ends_in_time(spark, fragile_broker, attack, interference):
    stream = create_filled_topic(spark, fragile_broker.settings)
    stream.merge()  # otherwise the read includes the first statements of a new session
    fill_partitions(stream)
    interference.while_reading(fragile_broker.embedded.pid, signal.SIGSTOP)
    requests: dict[str, tuple[Callable[[], object], float]] = {
        "read": (stream.merge, READ_LIMIT),
        "looked at": (lambda: read_topic(stream.settings, stream.table.topic), 5),
        "planned": (lambda: batches.plan_next(stream.settings, stream.table), 10),
        "merged": (stream.merge, 20),
        "sent to": (lambda: publish(stream.settings, stream.table, LINES), 18),
    }
    try:
        for request_name, (request, limit) in requests.items():
            with attack("Nothing is silent", f"broker hangs when it is {request_name}"):
                start_time = time.monotonic()
                with pytest.raises(BrokerError):
                    request()
                assert time.monotonic() - start_time < limit
    finally:
        fragile_broker.signal(signal.SIGCONT)
    with attack("Nothing is lost", "broker hung while records were read"):
        stream.merge()
        assert_holds(stream, HOURS)


@pytest.mark.invariant("1.17")
def test_a_read_from_a_dead_broker_fails_and_the_next_run_continues(spark, fragile_broker, attack, interference):
    stream = create_filled_topic(spark, fragile_broker.settings)
    with attack("Nothing is lost", "broker dead while records are read, and back for the next run"):
        interference.while_reading(fragile_broker.embedded.pid, signal.SIGKILL)
        with pytest.raises(BrokerError, match=f"{stream.table.topic}, partition 0.*lakehouse merge"):
            stream.merge()
        fragile_broker.embedded.start()
        stream.merge()
        assert_holds(stream, HOURS)


@pytest.mark.invariant("1.17")
@pytest.mark.parametrize("turn", range(5))
def test_a_leader_killed_between_plan_and_read_loses_no_record(spark, cluster, attack, interference, turn):
    stream = create_filled_topic(spark, cluster.settings)
    with (
        attack("Nothing is lost", "leader killed in a cluster of three between plan and read"),
        cluster.leader_killed(stream.table.topic) as kill,
    ):
        interference.before_reading(kill)
        retry_once(stream.merge)
        assert_holds(stream, HOURS)


@pytest.mark.parametrize("turn", range(5))
def test_a_leader_killed_during_a_publish_loses_no_record(spark, cluster, attack, turn):
    stream = Stream.create(spark, cluster.settings, deletes=Deletes(when=DELETES))
    with (
        attack("Nothing is lost", "leader killed in a cluster of three while records are sent"),
        cluster.leader_killed(stream.table.topic) as kill,
    ):
        sent_count, topic_state = publish_and_look(stream, kill)
        assert sorted(topic_state.end) == [0, 1, 2], "look waits for the next leader"
        assert_sent_and_merged(stream, sent_count)


def publish_and_look(stream: Stream, kill: Callable[[], None]) -> tuple[int, TopicState]:
    """Send all lines; in the middle of them kill the leader and read the state of the topic at once."""
    futures: list[Future[TopicState]] = []
    with ThreadPoolExecutor(1) as pool:

        def kill_and_look() -> None:
            kill()
            futures.append(pool.submit(read_topic, stream.settings, stream.table.topic, 15.0))

        sent_count = publish(stream.settings, stream.table, interrupted_lines(kill_and_look))
    return sent_count, futures[0].result()
