"""Topics on a real broker: identity, offsets, publishing, reading, and brokers that do not answer."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from lakehouse.cli.doctor import examine_connectors, examine_topic
from lakehouse.declaration import Column, Debezium, StreamTable
from lakehouse.errors import BrokerError, TopicError
from lakehouse.kafka import (
    PublishOptions,
    add_partitions,
    create_topic,
    delete_topic,
    publish,
    read_topic,
    read_topics,
    topic_names,
)
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import read_topic_records, with_client
from lakehouse_tests.helpers.change_records import change
from lakehouse_tests.helpers.tables.tables import redeclare
from lakehouse_tests.helpers.waiting import wait_until

READING = b'{"latitude": 13.0, "longitude": 77.6000064, "time": "2023-01-01T00:00", "temperature_2m": 20.5}'


@pytest.fixture
def mute_broker() -> Iterator[Settings]:
    """A broker that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Settings(kafka_bootstrap_servers=f"127.0.0.1:{server.getsockname()[1]}", _env_file=None)


@pytest.fixture
def down_broker() -> Settings:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    return Settings(kafka_bootstrap_servers=address, _env_file=None)


@pytest.mark.invariant("4.4")
def test_a_created_topic_has_the_declared_partitions_and_is_dated_by_the_broker(
    broker: Settings, table: StreamTable, topic: str
) -> None:
    state = read_topic(broker, topic)
    assert state.end == state.earliest == dict.fromkeys(range(table.topic_options.partitions), 0)
    assert not state.producer_time
    assert len(state.ids["topic_id"]) == len(state.ids["cluster_id"]) == 22
    assert topic in topic_names(broker)


def test_a_topic_that_exists_is_left_as_it_is(broker: Settings, table: StreamTable, topic: str) -> None:
    state_before = read_topic(broker, topic)
    assert not create_topic(broker, table, partitions=7)
    assert read_topic(broker, topic) == state_before


def test_the_states_of_several_topics_are_those_of_each(broker: Settings, table: StreamTable) -> None:
    tables = [redeclare(table, topic=f"t-{uuid4().hex[:12]}", partitions=number) for number in (1, 2, 5)]
    for declared_table in tables:
        create_topic(broker, declared_table)
    publish(broker, tables[1], [READING] * 3)
    names = [declared_table.topic for declared_table in tables]
    states = read_topics(broker, names)
    assert states == [read_topic(broker, name) for name in names]
    assert [(len(state.end), sum(state.end.values())) for state in states] == [(1, 0), (2, 3), (5, 0)]


def test_a_recreated_topic_has_another_id_in_the_same_cluster(broker: Settings, table: StreamTable, topic: str) -> None:
    state_before = read_topic(broker, topic)
    delete_topic(broker, topic)
    assert topic not in topic_names(broker)
    assert create_topic(broker, table)
    state_after = read_topic(broker, topic)
    assert state_after.ids["topic_id"] != state_before.ids["topic_id"]
    assert state_after.ids["cluster_id"] == state_before.ids["cluster_id"]


def test_a_topic_can_be_given_more_partitions_but_never_fewer(broker: Settings, topic: str) -> None:
    state_before = read_topic(broker, topic)
    add_partitions(broker, topic, 5)
    state_after = read_topic(broker, topic)
    assert sorted(state_after.end) == [0, 1, 2, 3, 4]
    assert state_after.ids["topic_id"] == state_before.ids["topic_id"]
    with pytest.raises(TopicError, match="has 5 partitions"):
        add_partitions(broker, topic, 4)


@pytest.mark.invariant("4.4")
def test_doctor_notes_producer_times_only_if_time_decides_the_order(broker: Settings, table: StreamTable) -> None:
    name = f"t-{uuid4().hex[:12]}"
    new_topic = NewTopic(name, 1, 1, topic_configs={"message.timestamp.type": "CreateTime"})
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.create_topics([new_topic]))
    assert read_topic(broker, name).producer_time
    dated_table = redeclare(table, topic=name)
    results = [
        examine_topic(broker, declared_table, [name])
        for declared_table in (dated_table, redeclare(dated_table, order="offset"))
    ]
    assert [result.state for result in results] == ["note", "ok"]
    assert "LogAppendTime" in results[0].detail


def test_doctor_decodes_the_newest_records_of_a_change_stream(broker: Settings) -> None:
    name = f"t_{uuid4().hex[:12]}"
    columns = [Column("id", "BIGINT", "Number.", required=True), Column("price", "DECIMAL(10,2)", "Price.")]
    items = StreamTable(name, name, "", columns, ["id"], format=Debezium(decimal_handling_mode="string"))
    create_topic(broker, items)
    (without_records,) = examine_connectors(broker, items, can_read=True)
    publish(broker, items, [change("c", number, {"id": number, "price": "12.50"}) for number in range(5)])
    (part,) = examine_connectors(broker, items, can_read=True)
    (wrong_part,) = examine_connectors(broker, replace(items, format=Debezium()), can_read=True)
    assert [without_records.state, part.state, wrong_part.state] == ["ok", "ok", "note"]
    assert without_records.detail.endswith("The topic has no records.")
    assert part.detail.endswith("The newest records fit.")
    assert "'price' is text '12.50', and its scale is unknown" in wrong_part.detail


def test_records_that_were_deleted_move_the_earliest_offset(broker: Settings, table: StreamTable, topic: str) -> None:
    publish(broker, table, [READING] * 10)
    partition = next(p for p, end in read_topic(broker, topic).end.items() if end == 10)
    deletion = {TopicPartition(topic, partition): RecordsToDelete(before_offset=4)}
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.delete_records(deletion))
    assert read_topic(broker, topic).earliest[partition] == 4
    assert read_topic(broker, topic).end[partition] == 10


@pytest.mark.invariant("2.1")
def test_an_open_transaction_holds_the_end_back_until_it_is_over(broker: Settings, topic: str) -> None:
    async def run_transaction(producer: AIOKafkaProducer) -> int:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open", partition=0)
        end_within_transaction = (await asyncio.to_thread(read_topic, broker, topic)).end[0]
        await producer.commit_transaction()
        return end_within_transaction

    assert with_client(AIOKafkaProducer, broker, run_transaction, transactional_id=topic) == 0
    # one record and the marker, which the broker writes after its answer
    assert wait_until(lambda: read_topic(broker, topic).end[0] == 2)


def test_every_published_line_is_acknowledged_and_keeps_its_bytes(
    broker: Settings, table: StreamTable, topic: str
) -> None:
    lines = [READING + b"\n", b'  {"latitude": 1}  \r\n', b"\xff\xfe no text", b"", b"{}"]
    progress: list[int] = []
    assert publish(broker, table, lines, PublishOptions(on_progress=progress.append)) == 5
    assert progress == [1, 2, 3, 4, 5]
    values = sorted(stored_record.value for stored_record in read_topic_records(broker, topic))
    assert values == sorted([READING, b'  {"latitude": 1}  ', b"\xff\xfe no text", b"", b"{}"])


@pytest.mark.invariant("13.1")
def test_a_record_that_can_be_read_is_keyed_by_the_merge_key(broker: Settings, table: StreamTable, topic: str) -> None:
    publish(broker, table, [READING, b"{"])
    keys = {stored_record.value: stored_record.key for stored_record in read_topic_records(broker, topic)}
    assert keys == {READING: b"13.000000|77.600006|2023-01-01T00:00:00+00:00", b"{": None}


def test_records_of_one_row_stay_in_one_partition_in_their_order(
    broker: Settings, table: StreamTable, topic: str
) -> None:
    number = count()
    lines = [READING.replace(b"20.5", b"%d" % next(number)) for _ in range(500)]
    publish(broker, table, lines)
    records = read_topic_records(broker, topic)
    assert len({stored_record.partition for stored_record in records}) == 1
    assert [
        stored_record.value for stored_record in sorted(records, key=lambda stored_record: stored_record.offset)
    ] == lines


def test_publishing_creates_a_missing_topic(broker: Settings, table: StreamTable) -> None:
    assert publish(broker, table, [READING]) == 1
    assert sum(read_topic(broker, table.topic).end.values()) == 1


def test_a_rate_spreads_records_over_time(broker: Settings, table: StreamTable, topic: str) -> None:
    assert publish(broker, table, [READING] * 60, PublishOptions(rate=100)) == 60
    timestamps = [stored_record.timestamp for stored_record in read_topic_records(broker, topic)]
    assert max(timestamps) - min(timestamps) >= 400, "59 pauses of 10 ms, minus those within one batch"


def test_a_line_that_is_too_long_for_the_broker_is_named(broker: Settings, table: StreamTable, topic: str) -> None:
    with pytest.raises(TopicError, match="Record 2 has 2000000 bytes"):
        publish(broker, table, [READING, b"x" * 2_000_000])


def test_an_error_of_the_lines_themselves_is_not_blamed_on_the_broker(
    broker: Settings, table: StreamTable, topic: str
) -> None:
    def lines() -> Iterator[bytes]:
        yield READING
        raise ValueError("no such line")

    with pytest.raises(ValueError, match="no such line"):
        publish(broker, table, lines())


def test_a_missing_topic_is_named_and_not_created_by_looking(broker: Settings, table: StreamTable) -> None:
    for call in (read_topic, delete_topic):
        with pytest.raises(TopicError, match=f"'{table.topic}' does not exist"):
            call(broker, table.topic)
    assert table.topic not in topic_names(broker)


@pytest.mark.parametrize("call", [lambda settings: read_topic(settings, "any"), topic_names])
def test_a_broker_that_is_down_or_mute_is_an_error_without_other_output(
    call: Callable[[Settings], object], down_broker: Settings, mute_broker: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("aiokafka").setLevel(logging.NOTSET)
    for settings, message in (
        (down_broker, "cannot be reached: .*refused|Connect call failed"),
        (mute_broker, "no answer"),
    ):
        with pytest.raises(BrokerError, match=message) as error_info:
            call(settings)
        assert error_info.value.where == settings.kafka_bootstrap_servers
        assert "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS" in error_info.value.action
    assert capfd.readouterr() == ("", "")


def test_many_mute_brokers_take_no_longer_than_the_limit(mute_broker: Settings) -> None:
    address = str(mute_broker.kafka_bootstrap_servers)
    many_settings = mute_broker.model_copy(update={"kafka_bootstrap_servers": ",".join([address] * 20)})

    async def look_within_the_limit() -> None:
        async with asyncio.timeout(3.0):
            with pytest.raises(BrokerError, match="does not answer"):
                await asyncio.to_thread(read_topic, many_settings, "any", 1.0)

    asyncio.run(look_within_the_limit())
