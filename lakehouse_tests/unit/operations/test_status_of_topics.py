"""The status, the plans and the request of a table that reads several topics, without Spark and a broker."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakehouse.declaration import Topic, TopicPattern, Topics
from lakehouse.defs.assets import MergeConfig, RangeConfig
from lakehouse.defs.figures import count_records, entries_of_run, read_ranges
from lakehouse.defs.waiting import SensorCursor, Waiting, plan_waiting_records, source_hash
from lakehouse.errors import LakehouseError, TopicError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import topics
from lakehouse.ingest.batches import Request
from lakehouse.ingest.topics import split_by_topic
from lakehouse.kafka import TopicState
from lakehouse.ledger.commit_values import OtherSource
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import app_id
from lakehouse.ledger.positions import Range, SourceId
from lakehouse.operations import status as status_module
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.status import left_out_fields, partition_fields, status
from lakehouse.settings import Settings
from lakehouse.sources import table_sources
from lakehouse.storage.table_context import merged_ledger
from lakehouse_tests.helpers.sensors import MERGED, write_log

EU, US, NEW = (SourceId("kafka", f"c/{name}") for name in ("eu", "us", "new"))
STATES = {
    "t-eu": TopicState("t-eu", EU, {0: 0}, {0: 12}),
    "t-us": TopicState("t-us", US, {0: 0, 1: 0}, {0: 5, 1: 7}),
    "t-new": TopicState("t-new", NEW, {0: 0}, {0: 3}),
}
TABLE = replace(temperatures, topic="", source=Topics(["t-eu", "t-us"]), base=None)
MATCHING = replace(TABLE, source=TopicPattern("t-.*"))
LEFT_OUT = (Range(1, 0, 4),)
HOUR = timedelta(hours=1)


def read_state(_: Settings, topic: str, *__: object, **___: object) -> TopicState:
    if topic not in STATES:
        raise TopicError(f"The topic {topic!r} does not exist", action="")
    return STATES[topic]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home whose table has merged ten records of one topic, and nine of another, which began later."""
    home_settings = Settings(home=tmp_path, _env_file=None)
    us = OtherSource(stream="t-us", progress={0: 5, 1: 4}, left_out=LEFT_OUT)
    fields = {**MERGED, "stream": "t-eu", "source": EU, "progress": {0: 10}, "other_sources": {US.text: us}}
    write_log(Path(home_settings.table_uri("temperatures"), "_delta_log"), Commit(**fields))
    monkeypatch.setattr(status_module, "bootstrap_servers", lambda _: "127.0.0.1:1")
    monkeypatch.setattr(table_sources, "read_topic", read_state)
    monkeypatch.setattr(
        table_sources, "read_topics", lambda _, names, *__, **___: [read_state(_, name) for name in names]
    )
    monkeypatch.setattr(topics, "topic_names", lambda *_: ["other", *STATES])
    return home_settings


@pytest.mark.invariant("2.8", "9.7")
def test_the_status_has_the_lag_of_each_topic_and_their_sum(settings: Settings) -> None:
    table_status = status(settings, TABLE)
    assert (table_status.lag, table_status.lags) == (5, {"t-eu": 2, "t-us": 3})
    rows = [(part.topic, part.partition, part.progress, part.lag) for part in table_status.partitions]
    assert rows == [("t-eu", 0, 10, 2), ("t-us", 0, 5, 0), ("t-us", 1, 4, 3)]
    assert next(iter(partition_fields(table_status.partitions[0]))) == "topic"
    assert left_out_fields(table_status.ledger) == {"t-us": {1: [0, 4]}}


@pytest.mark.invariant("2.8")
def test_a_missing_topic_is_the_problem_and_the_others_are_shown(settings: Settings) -> None:
    table_status = status(settings, replace(TABLE, source=Topics(["t-gone", "t-eu"])))
    assert (table_status.lag, table_status.lags) == (None, {"t-eu": 2})
    assert "'t-gone' does not exist" in (table_status.problem or "")


@pytest.mark.invariant("2.8")
def test_a_pattern_reads_the_topics_of_the_broker_and_those_with_progress(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [part.topic for part in split_by_topic(settings, MATCHING)] == ["t-eu", "t-new", "t-us"]
    monkeypatch.setattr(topics, "topic_names", lambda *_: ["t-new"])
    assert [part.topic for part in split_by_topic(settings, MATCHING)] == ["t-eu", "t-new", "t-us"], "none is missed"
    with pytest.raises(TopicError, match=r"No topic on this broker matches x-.*"):
        split_by_topic(settings, replace(TABLE, source=TopicPattern("x-.*")))


@pytest.mark.invariant("2.8", "12.2")
def test_a_tick_plans_all_topics_and_notices_a_new_one(settings: Settings) -> None:
    found_topics, all_topics = (plan_waiting_records(settings, table) for table in (TABLE, MATCHING))
    assert (found_topics.span, all_topics.span) == (5, 8)
    eu, us = map(source_hash, (EU, US))
    assert found_topics.end == {eu: {0: 12}, us: {0: 5, 1: 7}}
    assert found_topics.starts == {eu: {0: 10}, us: {0: 5, 1: 4}}
    cursor = SensorCursor().after(found_topics, 1.0, None)
    assert (cursor.is_at(found_topics), cursor.is_at(all_topics)) == (True, False)


@pytest.mark.invariant("12.11")
def test_a_new_topic_does_not_make_the_records_of_the_others_younger(settings: Settings) -> None:
    found_topics, all_topics = (plan_waiting_records(settings, table) for table in (TABLE, MATCHING))
    cursor = SensorCursor().after(found_topics, 1.0, HOUR).after(all_topics, 100_000.0, HOUR)
    assert [sighting.at for sighting in cursor.sightings] == [1.0, 100_000.0]


@pytest.mark.invariant("2.8")
def test_ranges_of_a_run_are_of_one_topic(settings: Settings) -> None:
    records = plan_waiting_records(settings, TABLE)
    config = MergeConfig(ranges=[RangeConfig(partition=1, end=6, topic="t-us")])
    assert config.request(TABLE, records) == Request(None, {0: 5, 1: 6}, "t-us")
    for names in ((None,), ("t-eu", "t-us"), ("other",)):
        ranges = [RangeConfig(partition=0, end=6, topic=name) for name in names]
        with pytest.raises(LakehouseError, match="must be of one topic"):
            MergeConfig(ranges=ranges).request(TABLE, records)


def test_the_figures_of_a_run_without_a_batch_have_the_lag_of_all_topics(settings: Settings) -> None:
    figures = read_ranges([], plan_waiting_records(settings, TABLE), merged_ledger(settings, TABLE))
    assert (figures["lag_before"], figures["lag_after"]) == (5, 5)
    assert Waiting(()).span == 0


@pytest.mark.invariant("12.8")
def test_a_run_that_another_writer_overtook_reports_what_that_writer_read(settings: Settings) -> None:
    waiting, log = plan_waiting_records(settings, TABLE), Path(settings.table_uri("temperatures"), "_delta_log")
    ledger = merged_ledger(settings, TABLE)
    commit = ledger.of_stream("t-eu").next_commit("batch", "cli")
    commit = commit.with_fields(ranges=(Range(0, 10, 12),), progress={0: 12}, read=2)
    info = {"timestamp": 0, "operation": "MERGE", "userMetadata": commit.model_dump_json()}
    txn = {"appId": app_id("temperatures"), "version": commit.number}
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, [{"commitInfo": info}, {"txn": txn}])))
    ledger, last_version = merged_ledger(settings, TABLE), ledger.version
    figures = read_ranges([], waiting, ledger, entries := entries_of_run([], ledger, last_version))
    assert (figures["lag_before"], figures["lag_after"]) == (5, 3)
    records = [record.data for record in figures["offsets_read"].records]
    assert records == [{"topic": "t-eu", "partition": 0, "start": 10, "end": 12}]
    assert count_records([], ledger, entries)["records_read"] == 2


@pytest.mark.invariant("2.8")
def test_a_topic_that_is_not_declared_any_more_is_a_change_and_keeps_its_progress(settings: Settings) -> None:
    shorter = replace(TABLE, source=Topics(["t-eu"]))
    details = [change.detail for change in plan_changes(settings, shorter)]
    assert "topic t-us is not read any more; its rows and its progress stay" in details
    alone = replace(TABLE, source=Topic("t-us"))
    progress = merged_ledger(settings, alone).progress
    assert progress is not None
    assert (progress.source, progress.positions) == (US, {0: 5, 1: 4}), "a table of one topic continues there"
