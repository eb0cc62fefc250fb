"""The sensor against a real broker, and against brokers that are down, hang or lack the topic. No Spark."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import EngineEventData

from lakehouse.defs import retries, waiting
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import Incarnation, TopicState, create_topic, delete_topic, look, publish
from lakehouse.ledger.positions import Progress, SourceId
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse_tests.helpers.brokers.clients import delete_before
from lakehouse_tests.helpers.brokers.sockets import free_address
from lakehouse_tests.helpers.sensors import World
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.invariant(12)

_LIMIT = 5.0  # seconds in which a tick ends, whatever the broker does
_FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]
LINES = [line for line, _ in zip(temperatures.samples.stream(), range(40), strict=False)]


@pytest.fixture
def world(broker: Settings, tmp_path: Path, instance: dg.DagsterInstance) -> World:
    """A table whose topic is not there yet."""
    return World(Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker)), instance)


@contextmanager
def mute_broker() -> Iterator[str]:
    """Listens, accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_empty_topic_asks_for_nothing(world):
    create_topic(world.settings, world.table)
    result = world.tick()
    assert not result.run_requests
    assert "Nothing to merge" in result.skip_message


def test_waiting_records_ask_for_one_run_of_all_there_is_when_it_starts(world):
    publish(world.settings, world.table, LINES)
    result = world.tick()
    (request,) = result.run_requests
    assert request.run_key is None
    assert request.run_config == {}
    ours = {name: told for name, told in request.tags.items() if name.startswith("lakehouse/")}
    assert ours == {"lakehouse/topic": world.table.topic, "lakehouse/lag": str(len(LINES))}
    job = world.defs.resolve_job_def("merge_temperatures")
    assert dg.validate_run_config(job, request.run_config)


@pytest.mark.parametrize("status", UNFINISHED, ids=lambda status: status.value)
def test_no_second_run_while_one_is_unfinished(world, status):
    publish(world.settings, world.table, LINES)
    run = world.record_run(status)
    result = world.tick()
    assert not result.run_requests
    assert run.run_id[:8] in result.skip_message


@pytest.mark.parametrize("chosen", [(), ("temperatures", "temperatures_rejected")], ids=["everything", "a selection"])
def test_a_run_of_the_materialize_button_counts(world, chosen):
    publish(world.settings, world.table, LINES)
    world.record_run(dg.DagsterRunStatus.QUEUED, "__ASSET_JOB", *chosen)
    result = world.tick()
    assert not result.run_requests
    assert "merges temperatures" in result.skip_message


def test_a_run_of_other_assets_does_not_count(world):
    publish(world.settings, world.table, LINES)
    world.record_run(dg.DagsterRunStatus.STARTED, "__ASSET_JOB", "locations")
    assert len(world.tick().run_requests) == 1


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED], ids=lambda s: s.value)
def test_an_ended_run_does_not_stop_the_next_request(world, status):
    publish(world.settings, world.table, LINES)
    assert len(world.tick().run_requests) == 1
    world.record_run(status)
    assert len(world.tick().run_requests) == 1


def test_a_failed_run_is_asked_for_again_after_a_pause(world, monkeypatch):
    publish(world.settings, world.table, LINES)
    failed = world.record_run(dg.DagsterRunStatus.FAILURE)
    result = world.tick()
    assert not result.run_requests
    failure = f"Run {failed.run_id[:8]} of merge_temperatures failed"
    assert f"Offsets to merge: {len(LINES)}. {failure}" in result.skip_message
    monkeypatch.setattr(retries, "_LONGEST", timedelta(0))
    assert len(world.tick().run_requests) == 1


def test_a_run_that_commits_during_a_tick_is_no_loss_of_data(world, monkeypatch):
    publish(world.settings, world.table, LINES)
    committed = SimpleNamespace(progress=None)

    def look_and_commit(*arguments: Any, **options: Any) -> TopicState:
        state = look(*arguments, **options)
        committed.progress = Progress(state.source, {p: end + 1 for p, end in state.end.items()})
        return state

    monkeypatch.setattr(
        waiting, "merged_ledger", lambda *_: SimpleNamespace(progress=committed.progress, unread=False, reached={})
    )
    monkeypatch.setattr(waiting, "look", look_and_commit)
    assert len(world.tick().run_requests) == 1


@pytest.mark.parametrize("left", [0, 1], ids=["all of them", "all but one of each partition"])
def test_expired_records_ask_for_a_run_where_the_declaration_accepts_gaps(world, monkeypatch, left):
    """Also where there is nothing to read: the gap is to be recorded."""
    accepting = World(world.settings, world.instance, gaps="accept")
    topic = accepting.table.topic
    publish(accepting.settings, accepting.table, LINES)
    end = look(accepting.settings, topic).end
    delete_before(accepting.settings, topic, {p: offset - left for p, offset in end.items()})
    state = look(accepting.settings, topic)
    progress = Progress(state.source, dict.fromkeys(end, 0))
    monkeypatch.setattr(
        waiting, "merged_ledger", lambda *_: SimpleNamespace(progress=progress, unread=False, reached={})
    )
    (request,) = accepting.tick().run_requests
    assert request.tags["lakehouse/lag"] == str(left * len(end))


def test_the_topic_is_reported_when_it_moved_and_only_then(world):
    create_topic(world.settings, world.table)
    reported = []
    for lines in ([], [], LINES, []):
        publish(world.settings, world.table, lines)
        reported.append(world.tick().asset_events)
    assert [len(events) for events in reported] == [1, 0, 1, 0]
    first, second = reported[0][0], reported[2][0]
    assert second.asset_key == dg.AssetKey("temperatures_topic")
    assert second.metadata["positions"].value == len(LINES)
    assert first.tags["dagster/data_version"] != second.tags["dagster/data_version"]


def test_a_topic_made_anew_does_not_look_like_the_old_one(world):
    """Also where it ends at the same offsets."""
    create_topic(world.settings, world.table)
    before = world.tick()
    delete_topic(world.settings, world.table.topic)
    create_topic(world.settings, world.table)
    after = world.tick()
    sources = [SourceId.parse(json.loads(result.cursor)["source"]) for result in (before, after)]
    ids = [Incarnation.of(source).topic_id for source in sources]
    assert ids == [result.asset_events[0].metadata["topic_id"].value for result in (before, after)]
    assert ids[1] == look(world.settings, world.table.topic).ids["topic_id"] != ids[0]
    versions = {result.asset_events[0].tags["dagster/data_version"] for result in (before, after)}
    assert len(versions) == 2


@pytest.mark.parametrize("away", [False, True], ids=["", "also while the topic is away"])
def test_what_was_written_without_a_run_is_told_by_the_next_tick(world, away):
    create_topic(world.settings, world.table)
    world.merged()
    if away:
        delete_topic(world.settings, world.table.topic)
        assert wait_until(lambda: "does not exist" in (world.tick().skip_message or ""))
    for _ in range(2):
        world.tick()
    told = world.instance.fetch_materializations(dg.AssetKey("temperatures"), limit=10).records
    assert [each.asset_materialization.metadata["table_version"].value for each in told] == [0]


def test_a_missing_topic_is_a_reason_to_skip(world):
    result = skipped_in_time(world)
    assert world.table.topic in result


def test_a_broker_that_is_down_is_a_reason_to_skip(tmp_path, instance):
    address = free_address()
    assert address in skipped_in_time(World(Settings(home=tmp_path, kafka_bootstrap_servers=address), instance))


def test_a_broker_that_hangs_is_a_reason_to_skip(tmp_path, instance):
    with mute_broker() as address:
        world = World(Settings(home=tmp_path, kafka_bootstrap_servers=address), instance)
        assert address in skipped_in_time(world)


def test_no_broker_at_all_is_a_reason_to_skip(tmp_path, instance):
    assert "broker" in skipped_in_time(World(Settings(home=tmp_path, kafka_bootstrap_servers=None), instance))


def skipped_in_time(world: World) -> str:
    started = time.monotonic()
    result = world.tick()
    assert time.monotonic() - started < _LIMIT
    assert not result.run_requests
    return result.skip_message


def test_a_run_whose_process_died_unseen_is_ended_and_its_records_are_asked_for_again(broker, tmp_path, monkeypatch):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        world = World(Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker)), instance)
        publish(world.settings, world.table, LINES)
        alive = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        run = world.record_run(dg.DagsterRunStatus.STARTED)
        instance.report_engine_event("Started process for run.", run, EngineEventData.in_process(alive.pid))
        assert not world.tick().run_requests
        alive.communicate(b"\n")
        assert f"Run {run.run_id[:8]} of merge_temperatures failed" in world.tick().skip_message
        monkeypatch.setattr(retries, "_LONGEST", timedelta(0))
        assert len(world.tick().run_requests) == 1
        assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.FAILURE
