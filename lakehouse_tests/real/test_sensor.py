"""The sensor with a real broker, and with brokers that are down, hang or do not have the topic. No Spark."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from aiokafka import AIOKafkaProducer
from dagster._core.events import EngineEventData

from lakehouse.cli.doctor import Part, examine_topic
from lakehouse.defs import runs
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import Incarnation, TopicState, create_topic, delete_topic, publish, read_topic, read_topics
from lakehouse.ledger.positions import SourceId
from lakehouse.operations.status import Status, status
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.sources import table_sources
from lakehouse_tests.helpers.brokers.clients import delete_before, with_client
from lakehouse_tests.helpers.brokers.sockets import free_address
from lakehouse_tests.helpers.sensors import World
from lakehouse_tests.helpers.waiting import wait_until

IN_TRANSACTION = "behind an open transaction"
_LIMIT = 5.0  # seconds; a tick ends within them for any state of the broker
_FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]
LINES = [line for line, _ in zip(temperatures.samples.stream(), range(40), strict=False)]


@pytest.fixture
def world(broker: Settings, tmp_path: Path, instance: dg.DagsterInstance) -> World:
    """A table whose topic does not exist yet."""
    return World(Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker)), instance)


@contextmanager
def mute_broker() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_empty_topic_requests_nothing(world):
    create_topic(world.settings, world.table)
    result = world.tick()
    assert not result.run_requests
    assert "Nothing to merge" in result.skip_message


@pytest.mark.invariant("12.9")
def test_waiting_records_request_one_run_without_a_limit(world):
    publish(world.settings, world.table, LINES)
    result = world.tick()
    (request,) = result.run_requests
    assert request.run_key is None
    assert request.run_config == {}
    own_tags = {name: value for name, value in request.tags.items() if name.startswith("lakehouse/")}
    assert own_tags == {"lakehouse/topic": world.table.topic, "lakehouse/lag": str(len(LINES))}
    job = world.defs.resolve_job_def("merge_temperatures")
    assert dg.validate_run_config(job, request.run_config)


@pytest.mark.invariant("12.2")
@pytest.mark.parametrize("status", UNFINISHED, ids=lambda status: status.value)
def test_no_second_run_while_one_is_unfinished(world, status):
    publish(world.settings, world.table, LINES)
    run = world.record_run(status)
    result = world.tick()
    assert not result.run_requests
    assert run.run_id[:8] in result.skip_message


@pytest.mark.invariant("12.2")
@pytest.mark.parametrize(
    "asset_names", [(), ("temperatures", "temperatures_rejected")], ids=["everything", "a selection"]
)
def test_a_run_of_the_materialize_button_counts(world, asset_names):
    publish(world.settings, world.table, LINES)
    world.record_run(dg.DagsterRunStatus.QUEUED, "__ASSET_JOB", *asset_names)
    result = world.tick()
    assert not result.run_requests
    assert "is merging temperatures" in result.skip_message


@pytest.mark.invariant("12.2")
def test_a_run_of_other_assets_does_not_count(world):
    publish(world.settings, world.table, LINES)
    world.record_run(dg.DagsterRunStatus.STARTED, "__ASSET_JOB", "locations")
    assert len(world.tick().run_requests) == 1


@pytest.mark.invariant("1.2", "12.2")
@pytest.mark.parametrize("status", [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED], ids=lambda s: s.value)
def test_an_ended_run_does_not_stop_the_next_request(world, status):
    publish(world.settings, world.table, LINES)
    assert len(world.tick().run_requests) == 1
    world.record_run(status)
    assert len(world.tick().run_requests) == 1


@pytest.mark.invariant("12.5")
def test_a_failed_run_is_requested_again_after_a_pause(world, monkeypatch):
    publish(world.settings, world.table, LINES)
    failed_run = world.record_run(dg.DagsterRunStatus.FAILURE)
    result = world.tick()
    assert not result.run_requests
    failure = f"Run {failed_run.run_id[:8]} of merge_temperatures failed"
    assert f"Offsets to merge: {len(LINES)}. {failure}" in result.skip_message
    monkeypatch.setattr(runs, "_LONGEST", timedelta(0))
    assert len(world.tick().run_requests) == 1


@pytest.mark.invariant("12.5")
def test_a_failed_run_of_another_code_location_makes_no_pause(world):
    publish(world.settings, world.table, LINES)
    world.record_run(dg.DagsterRunStatus.FAILURE, location="another")
    assert len(world.tick().run_requests) == 1


def test_a_run_that_commits_during_a_tick_is_not_a_data_loss(world, monkeypatch):
    publish(world.settings, world.table, LINES)

    def look_and_commit(*arguments: Any, **options: Any) -> list[TopicState]:
        states = read_topics(*arguments, **options)
        world.merged({p: end + 1 for p, end in states[0].end.items()})
        return states

    monkeypatch.setattr(table_sources, "read_topics", look_and_commit)
    assert len(world.tick().run_requests) == 1


@pytest.mark.invariant("9.4")
@pytest.mark.parametrize("left_per_partition", [0, 1], ids=["all of them", "all but one of each partition"])
def test_expired_records_request_a_run_if_the_declaration_accepts_gaps(world, left_per_partition):
    """A run is requested even if no record is left: it has to record the gap."""
    accepting_world = World(world.settings, world.instance, gaps="accept")
    topic = accepting_world.table.topic
    publish(accepting_world.settings, accepting_world.table, LINES)
    end = read_topic(accepting_world.settings, topic).end
    delete_before(accepting_world.settings, topic, {p: offset - left_per_partition for p, offset in end.items()})
    accepting_world.merged(dict.fromkeys(end, 0))
    (request,) = accepting_world.tick().run_requests
    assert request.tags["lakehouse/lag"] == str(left_per_partition * len(end))


@pytest.mark.invariant("2.1", "12.10")
def test_records_behind_an_open_transaction_are_named_until_it_ends(world):
    publish(world.settings, world.table, LINES)
    world.merged()
    topic = world.table.topic

    async def run_transaction(producer: AIOKafkaProducer) -> tuple[str, Status, Part]:
        await producer.begin_transaction()
        for value in (b"open", b"behind"):
            await producer.send_and_wait(topic, value, partition=0)
        tick = await asyncio.to_thread(world.tick)
        open_status = await asyncio.to_thread(status, world.settings, world.table)
        part = await asyncio.to_thread(examine_topic, world.settings, world.table, [topic])
        await producer.abort_transaction()
        return tick.skip_message, open_status, part

    message, open_status, part = with_client(AIOKafkaProducer, world.settings, run_transaction, transactional_id=topic)
    held_text = f"Not read: 2 offsets: topic {topic}, partition 0 from offset"
    assert f"Nothing to merge now. {held_text}" in message
    assert (open_status.lag, open_status.is_up_to_date) == (0, False)
    assert [(held_part.count, held_part.reason) for held_part in open_status.held_parts] == [(2, IN_TRANSACTION)]
    assert (part.state, held_text in part.detail) == ("note", True)
    assert wait_until(lambda: not status(world.settings, world.table).held_parts)


def test_the_topic_is_reported_only_if_its_offsets_changed(world):
    create_topic(world.settings, world.table)
    reported_events = []
    for lines in ([], [], LINES, []):
        publish(world.settings, world.table, lines)
        reported_events.append(world.tick().asset_events)
    assert [len(events) for events in reported_events] == [1, 0, 1, 0]
    first, second = reported_events[0][0], reported_events[2][0]
    assert second.asset_key == dg.AssetKey("temperatures_topic")
    assert second.metadata["offsets_held"].value == len(LINES)
    assert first.tags["dagster/data_version"] != second.tags["dagster/data_version"]


def test_a_recreated_topic_differs_from_the_old_one(world):
    """They differ even if they end at the same offsets."""
    create_topic(world.settings, world.table)
    before = world.tick()
    delete_topic(world.settings, world.table.topic)
    create_topic(world.settings, world.table)
    after = world.tick()
    sources = [SourceId.parse(json.loads(result.cursor)["source"]) for result in (before, after)]
    ids = [Incarnation.of(source).topic_id for source in sources]
    assert ids == [result.asset_events[0].metadata["topic_id"].value for result in (before, after)]
    assert ids[1] == read_topic(world.settings, world.table.topic).ids["topic_id"] != ids[0]
    versions = {result.asset_events[0].tags["dagster/data_version"] for result in (before, after)}
    assert len(versions) == 2


@pytest.mark.invariant("12.8")
@pytest.mark.parametrize("is_topic_missing", [False, True], ids=["", "even if the topic is missing"])
def test_a_commit_without_a_run_is_reported_by_the_next_tick(world, is_topic_missing):
    create_topic(world.settings, world.table)
    world.merged()
    if is_topic_missing:
        delete_topic(world.settings, world.table.topic)
        assert wait_until(lambda: "does not exist" in (world.tick().skip_message or ""))
    for _ in range(2):
        world.tick()
    records = world.instance.fetch_materializations(dg.AssetKey("temperatures"), limit=10).records
    assert [record.asset_materialization.metadata["table_version"].value for record in records] == [0]


@pytest.mark.invariant("12.1", "12.3")
def test_a_missing_topic_is_a_reason_to_skip(world):
    assert world.table.topic in tick_and_get_skip_message(world)


@pytest.mark.invariant("12.1", "12.3")
def test_a_broker_that_is_down_is_a_reason_to_skip(tmp_path, instance):
    address = free_address()
    world = World(Settings(home=tmp_path, kafka_bootstrap_servers=address), instance)
    assert address in tick_and_get_skip_message(world)


@pytest.mark.invariant("12.1", "12.3")
def test_a_broker_that_hangs_is_a_reason_to_skip(tmp_path, instance):
    with mute_broker() as address:
        world = World(Settings(home=tmp_path, kafka_bootstrap_servers=address), instance)
        assert address in tick_and_get_skip_message(world)


@pytest.mark.invariant("12.1", "12.3")
def test_no_broker_at_all_is_a_reason_to_skip(tmp_path, instance):
    assert "broker" in tick_and_get_skip_message(World(Settings(home=tmp_path, kafka_bootstrap_servers=None), instance))


def tick_and_get_skip_message(world: World) -> str:
    start = time.monotonic()
    result = world.tick()
    assert time.monotonic() - start < _LIMIT
    assert not result.run_requests
    return result.skip_message


@pytest.mark.invariant("12.4")
def test_a_run_whose_process_died_is_ended_and_requested_again(broker, tmp_path, monkeypatch):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        world = World(Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker)), instance)
        publish(world.settings, world.table, LINES)
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        run = world.record_run(dg.DagsterRunStatus.STARTED)
        instance.report_engine_event("Started process for run.", run, EngineEventData.in_process(process.pid))
        assert not world.tick().run_requests
        process.communicate(b"\n")
        assert f"Run {run.run_id[:8]} of merge_temperatures failed" in world.tick().skip_message
        monkeypatch.setattr(runs, "_LONGEST", timedelta(0))
        assert len(world.tick().run_requests) == 1
        assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.FAILURE
