"""Brokers that are killed, hang or lose the leader of a partition, while records are read and while they are sent."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import BrokerError
from lakehouse.ingest import batches
from lakehouse.kafka import TopicState, look, publish
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import stored
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(2, 9)

PARTITIONS = 4  # more than the session has cores, so that some are read later than others
READ_LIMIT = 45.0  # seconds in which a read of a broker that hangs ends
HOURS = [hour(number) for number in range(40)]
LINES = [record(time=hour(number % 240), temperature_2m=float(number % 60)) for number in range(6_000)]


def filled(spark: SparkSession, settings: Settings) -> Stream:
    """A topic with records in every partition, not merged yet."""
    stream = Stream.create(spark, settings, partitions=PARTITIONS)
    fill(stream)
    return stream


def fill(stream: Stream) -> None:
    """Send one record for each hour; an hour always goes to the same partition."""
    for partition in range(PARTITIONS):
        stream.send(*(record(time=time) for time in HOURS[partition::PARTITIONS]), partition=partition)


def assert_holds(stream: Stream, hours: list[str]) -> None:
    """The table holds these hours and nothing else, and its history accounts for them."""
    assert set(stream.temperatures()) == set(hours)
    stream.assert_accounted()


def patient(work: Callable[[], Any]) -> Any:
    """Do it, and once more where the broker was in trouble the first time."""
    try:
        return work()
    except BrokerError:
        return work()


@pytest.mark.parametrize("turn", range(5))
def test_a_broker_killed_and_restarted_while_records_are_read(spark, one, attack, interference, turn):
    stream = filled(spark, one.settings)
    with attack("Nothing is lost", "broker killed and restarted while records are read"):
        killed = interference.while_reading(one.embedded.pid, signal.SIGKILL)
        with one.restarted_when_dead():
            outcomes = patient(stream.merge)
        assert killed.exists()
        assert sum(outcome.entry.commit.read for outcome in outcomes) == len(HOURS)
        assert_holds(stream, HOURS)


@pytest.mark.parametrize("turn", range(5))
def test_a_broker_killed_and_restarted_while_records_are_sent(spark, one, attack, turn):
    stream = Stream.create(spark, one.settings)
    with attack("Nothing is lost", "broker killed and restarted while records are sent"):
        with one.restarted_when_dead():
            sent = publish(one.settings, stream.table, interrupted(lambda: one.signal(signal.SIGKILL)))
        assert_sent_and_merged(stream, sent)


def interrupted(action: Callable[[], object]) -> Iterator[bytes]:
    """Lines to send, with something happening in the middle of them."""
    for number, line in enumerate(LINES):
        if number == len(LINES) // 2:
            action()
        yield line


def assert_sent_and_merged(stream: Stream, sent: int) -> None:
    """Every line is in the topic once, and the last of each hour in the table."""
    assert sent == len(LINES)
    assert Counter(found.value for found in stored(stream.settings, stream.table.topic)) == Counter(LINES)
    stream.merge()
    newest = {hour(number % 240): float(number % 60) for number in range(len(LINES))}
    assert stream.temperatures() == newest
    stream.assert_accounted()


def test_a_broker_that_hangs_ends_every_question_in_time(spark, one, attack, interference):
    stream = filled(spark, one.settings)
    stream.merge()  # else the read also pays for the first statements of a new session
    fill(stream)
    interference.while_reading(one.embedded.pid, signal.SIGSTOP)
    questions: dict[str, tuple[Callable[[], object], float]] = {
        "read": (stream.merge, READ_LIMIT),
        "looked at": (lambda: look(stream.settings, stream.table.topic), 5),
        "planned": (lambda: batches.plan_next(stream.settings, stream.table), 10),
        "merged": (stream.merge, 20),
        "sent to": (lambda: publish(stream.settings, stream.table, LINES), 18),
    }
    try:
        for what, (question, limit) in questions.items():
            with attack("Nothing is silent", f"broker hangs when it is {what}"):
                began = time.monotonic()
                with pytest.raises(BrokerError):
                    question()
                assert time.monotonic() - began < limit
    finally:
        one.signal(signal.SIGCONT)
    with attack("Nothing is lost", "broker hung while records were read"):
        stream.merge()
        assert_holds(stream, HOURS)


def test_a_broker_that_stays_dead_while_records_are_read(spark, one, attack, interference):
    stream = filled(spark, one.settings)
    with attack("Nothing is lost", "broker dead while records are read, and back for the next run"):
        interference.while_reading(one.embedded.pid, signal.SIGKILL)
        with pytest.raises(BrokerError, match=f"{stream.table.topic}, partition 0.*lakehouse merge"):
            stream.merge()
        one.embedded.start()
        stream.merge()
        assert_holds(stream, HOURS)


@pytest.mark.parametrize("turn", range(5))
def test_the_leader_of_a_partition_is_killed_between_plan_and_read(spark, cluster, attack, interference, turn):
    stream = filled(spark, cluster.settings)
    with (
        attack("Nothing is lost", "leader killed in a cluster of three between plan and read"),
        cluster.leader_killed(stream.table.topic) as kill,
    ):
        interference.before_reading(kill)
        patient(stream.merge)
        assert_holds(stream, HOURS)


@pytest.mark.parametrize("turn", range(5))
def test_the_leader_of_a_partition_is_killed_while_records_are_sent(spark, cluster, attack, turn):
    stream = Stream.create(spark, cluster.settings)
    with (
        attack("Nothing is lost", "leader killed in a cluster of three while records are sent"),
        cluster.leader_killed(stream.table.topic) as kill,
    ):
        sent, seen = publish_and_look(stream, kill)
        assert sorted(seen.end) == [0, 1, 2], "a look waits for the next leader"
        assert_sent_and_merged(stream, sent)


def publish_and_look(stream: Stream, kill: Callable[[], None]) -> tuple[int, TopicState]:
    """Send all lines, and look at the topic as soon as the leader is killed in the middle of them."""
    looks: list[Future[TopicState]] = []
    with ThreadPoolExecutor(1) as pool:

        def kill_and_look() -> None:
            kill()
            looks.append(pool.submit(look, stream.settings, stream.table.topic, 15.0))

        sent = publish(stream.settings, stream.table, interrupted(kill_and_look))
    return sent, looks[0].result()
