"""Runs of sinks to topics are killed and race: readers of committed records get each change once, in order."""

import json
import random
import signal
from collections import defaultdict
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lakehouse.errors import BrokerError
from lakehouse.kafka import transactions
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.sinks.topic import TopicDelivery
from lakehouse_tests.helpers.attacks.reliability import Target as Attacked
from lakehouse_tests.helpers.attacks.topic_sink_worker import Moment, delivery_of, start
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge

CRASH, ONCE, LOST = "A crash loses nothing", "Two writers lose nothing", "Nothing is lost"
MOMENTS: list[Moment] = [
    (method, when, nth)
    for method, counts in {"begin_transaction": 1, "send": 4, "send_and_wait": 1, "commit_transaction": 1}.items()
    for when in ("before", "after")
    for nth in range(counts)
]


class Sent(NamedTuple):
    """A change: the row, its price or ``None`` if it is deleted, and the version of the table."""

    id: str
    price: float | None
    version: int


@pytest.fixture
def delivery(broker: Settings, tmp_path: Path) -> TopicDelivery:
    delivery = delivery_of(tmp_path, bootstrap_servers(broker), f"sales-{uuid4().hex}")
    append(delivery.settings, *((f"s{number}", 1.0, day(1 + number % 5)) for number in range(20)))
    delivery.update()
    return delivery


def change(delivery: TopicDelivery, number: int) -> None:
    """Insert, update and delete rows; two versions of the table."""
    merge(delivery.settings, (f"s{number % 20}", 2.0 + number, day(7)), (f"n{number}", 1.0, None))
    delete(delivery.settings, f"id = 's{(number + 9) % 20}' OR id = 'n{number - 3}'")


def committed(delivery: TopicDelivery) -> list[Sent]:
    """The changes of the topic that readers of committed records get, without those of the first load."""

    async def read(clients: Clients) -> list[Sent]:
        async with clients.open(AIOKafkaConsumer, isolation_level="read_committed") as consumer:
            partition = TopicPartition(delivery.sink.to.name, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            records: list[Any] = []
            while await consumer.position(partition) < end:
                for part in (await consumer.getmany(partition, timeout_ms=500)).values():
                    records += part
        return [
            Sent(
                json.loads(record.key)["id"],
                json.loads(record.value)["price"] if record.value else None,
                int(dict(record.headers)["lakehouse.version"]),
            )
            for record in records
        ]

    return [sent for sent in ask(delivery.settings, None, read) if sent.version]


def made(delivery: TopicDelivery) -> list[Sent]:
    """The changes that the table made, as its change data says."""
    rows = DeltaTable(delivery.settings.table_uri("sales")).load_cdf(starting_version=1)
    changes = pa.table(rows).to_pylist()
    return [
        Sent(row["id"], None if row["_change_type"] == "delete" else row["price"], row["_commit_version"])
        for row in changes
        if row["_change_type"] != "update_preimage"
    ]


def assert_each_once(delivery: TopicDelivery) -> None:
    """Every change is in the topic once, and those of a row are in the order of versions."""
    sent = committed(delivery)
    assert sorted(map(str, sent)) == sorted(map(str, made(delivery)))
    by_row: defaultdict[str, list[int]] = defaultdict(list)
    for record in sent:
        by_row[record.id].append(record.version)
    assert all(versions == sorted(versions) for versions in by_row.values())


@pytest.mark.invariant("10.14")
@pytest.mark.parametrize("moment", MOMENTS, ids=map(str, MOMENTS))
def test_a_rerun_after_a_kill_sends_each_change_once(delivery: TopicDelivery, moment: Moment, attack: Any) -> None:
    change(delivery, 0)
    with attack(CRASH, f"SIGKILL, {moment[1]} {moment[0]} of a sink", target=Attacked.SINKS):
        process = start(delivery, moment)
        output = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"The run did not reach the moment: {output}"
        delivery.update()
        assert_each_once(delivery)
        assert delivery.update().kind is None
        assert delivery.equals_table().passed


@pytest.mark.invariant("10.14")
def test_runs_that_race_or_die_at_any_time_send_each_change_once(delivery: TopicDelivery, attack: Any) -> None:
    rng = random.Random(56)
    for number in range(10):
        change(delivery, number)
        with attack(ONCE, "two runs of a sink to a topic, one of them killed at a random time", target=Attacked.SINKS):
            processes = [start(delivery) for _ in range(2)]
            Event().wait(rng.uniform(0.8, 2.0))
            processes[number % 2].kill()
            results = [process.communicate()[0] for process in processes]
            assert all("error" not in json.loads(text) or "took it over" in text for text in results if text)
    delivery.update()
    assert_each_once(delivery)
    assert delivery.equals_table().passed


@pytest.mark.invariant("10.14")
def test_a_first_load_that_is_killed_is_completed_without_doubles(
    broker: Settings, tmp_path: Path, attack: Any
) -> None:
    delivery = delivery_of(tmp_path, bootstrap_servers(broker), f"sales-{uuid4().hex}")
    append(delivery.settings, *((f"s{number}", 1.0, None) for number in range(25_000)))
    with attack(CRASH, "SIGKILL, in the third transaction of a first load", target=Attacked.SINKS):
        process = start(delivery, ("send_and_wait", "before", 2))
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        update = delivery.update()
        assert (update.kind, update.rows) == ("whole", 5_000)
        assert delivery.equals_table().passed


@pytest.mark.invariant("10.14")
@pytest.mark.parametrize("seed", range(6))
def test_random_histories_end_with_the_rows_of_the_table(delivery: TopicDelivery, seed: int, attack: Any) -> None:
    """Changes, restores, new tables and killed runs, in any order."""
    rng = random.Random(seed)
    uri = delivery.settings.table_uri("sales")

    def create_again() -> None:
        Path(uri).rename(Path(uri).with_name(f"former_{rng.random()}"))
        append(delivery.settings, ("s1", 5.0, day(2)), ("again", 1.0, None))

    steps = [
        lambda: change(delivery, rng.randrange(40)),
        lambda: DeltaTable(uri).restore(rng.randrange(DeltaTable(uri).version() + 1)),
        create_again,
        lambda: start(delivery, rng.choice(MOMENTS)).communicate(),
        delivery.update,
    ]
    with attack(LOST, "random histories of a sink to a topic", target=Attacked.SINKS):
        for _ in range(12):
            with suppress(DeltaError):  # a RESTORE to the newest version
                rng.choices(steps, [6, 1, 0.5, 4, 3])[0]()
        delivery.update()
        assert delivery.equals_table().passed


@pytest.mark.invariant("10.14")
def test_a_broker_that_does_not_answer_ends_the_run_and_nothing_is_lost(
    fragile_broker: OneServer, tmp_path: Path, attack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_STALL_SECONDS", 4.0)
    servers = bootstrap_servers(fragile_broker.settings)
    delivery = delivery_of(tmp_path, servers, f"sales-{uuid4().hex}")
    append(delivery.settings, ("a", 1.0, None))
    delivery.update()
    send, calls = AIOKafkaProducer.send, count()

    async def send_to_frozen(*arguments: Any, **options: Any) -> Any:
        if next(calls) == 1:
            fragile_broker.signal(signal.SIGSTOP)
        return await send(*arguments, **options)

    change(delivery, 0)
    with attack(LOST, "the broker of a sink does not answer", target=Attacked.SINKS):
        with monkeypatch.context() as patch:
            patch.setattr(AIOKafkaProducer, "send", send_to_frozen)
            try:
                with pytest.raises(BrokerError, match="does not answer"):
                    delivery.update()
            finally:
                fragile_broker.signal(signal.SIGCONT)
        delivery.update()
        assert_each_once(delivery)
        assert delivery.equals_table().passed
