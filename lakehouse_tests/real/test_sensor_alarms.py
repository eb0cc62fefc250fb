"""A problem that stops a table fails the tick, and a check of the table shows the reason until it is solved."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakehouse.defs import waiting
from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import DataLossError, LedgerError, SettingsError, TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import Incarnation, create_topic, delete_topic, publish, read_topic
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import app_id
from lakehouse.ledger.positions import SourceId
from lakehouse_tests.helpers.sensors import ALARM, MERGED, World, write_log
from lakehouse_tests.helpers.waiting import wait_until

LINES = [line for line, _ in zip(temperatures.samples.stream(), range(40), strict=False)]


@pytest.mark.invariant("9.1", "12.3")
def test_a_recreated_topic_fails_the_tick_and_a_check_until_it_is_merged(world: World) -> None:
    publish(world.settings, world.table, LINES)
    world.merged()
    world.tick()
    before = len(world.evaluations)
    delete_topic(world.settings, world.table.topic)
    assert wait_until(lambda: "does not exist" in (world.tick().skip_message or ""))
    create_topic(world.settings, world.table)
    message = world.fails(DataLossError)
    assert "deleted and created again" in message
    assert "lakehouse repair gap temperatures" in message
    assert world.evaluations[before:] == [(False, message)]
    assert world.fails(DataLossError) == message
    assert len(world.evaluations) == before + 1
    world.merged()
    assert not world.tick().run_requests
    world.tick()
    assert [has_passed for has_passed, _ in world.evaluations[before:]] == [False, True]


@pytest.mark.invariant("9.1", "12.3")
def test_records_deleted_before_the_merge_fail_the_tick_and_are_listed(world: World) -> None:
    world.merged()
    publish(world.settings, world.table, LINES)
    ends = read_topic(world.settings, world.table.topic).end
    partition = next(partition for partition, end in ends.items() if end > 1)
    world.delete_records({partition: 2})
    message = world.fails(DataLossError)
    assert f"Partition {partition}: records from 0 to 1 were deleted before they were merged" in message
    assert world.evaluations[-1] == (False, message)


@pytest.mark.invariant("9.9", "12.3")
def test_a_log_that_cannot_be_read_fails_the_tick(world: World) -> None:
    world.merged()
    log_file = next(world.log.iterdir())
    content = log_file.read_bytes()
    log_file.write_text("{")
    assert world.fails(TableError) == world.evaluations[-1][1]
    log_file.write_bytes(content)
    world.tick()
    assert world.evaluations[-1][0]


@pytest.mark.invariant("1.15", "12.3")
def test_a_log_without_progress_fails_the_tick(world: World) -> None:
    rows, uri = {"n": [1]}, world.settings.table_uri("temperatures")
    properties = CommitProperties(app_transactions=[Transaction(app_id("temperatures"), 7)])
    for _ in range(2):
        write_deltalake(uri, pa.table(rows), mode="append", commit_properties=properties)
    DeltaTable(uri).create_checkpoint()
    (world.log / f"{0:020}.json").unlink()
    assert "lakehouse repair progress temperatures" in world.fails(LedgerError)
    assert not world.evaluations[-1][0]


@pytest.mark.invariant("12.3")
def test_an_invalid_setting_fails_the_tick(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_SECURITY_PROTOCOL", "TSL")
    world.resources["lakehouse"] = LakehouseResource()
    assert "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL" in world.fails(SettingsError)
    assert not world.evaluations[-1][0]


@pytest.mark.invariant("12.3")
def test_an_unexpected_error_fails_the_tick_and_the_check(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_error(*_: object) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(waiting, "merged_ledger", raise_error)
    with pytest.raises(RuntimeError):
        world.tick()
    assert world.evaluations == [(False, "RuntimeError: nobody foresaw this")]


@pytest.mark.invariant("12.3")
def test_a_missing_topic_leaves_the_check_unchanged(world: World) -> None:
    publish(world.settings, world.table, LINES)
    world.tick()
    before = world.evaluations
    delete_topic(world.settings, world.table.topic)
    assert wait_until(lambda: "does not exist" in (world.tick().skip_message or ""))
    assert world.evaluations == before


def run_check(world: World) -> dg.AssetCheckEvaluation:
    """Run the check as the button in the UI does."""
    all_assets = world.defs.resolve_implicit_global_asset_job_def()
    job = all_assets.get_subset(asset_selection=set(), asset_check_selection={ALARM})
    (evaluation,) = job.execute_in_process(instance=world.instance).get_asset_check_evaluations()
    return evaluation


def test_a_manual_run_of_the_check_gives_the_same_result_without_spark(world: World) -> None:
    world.merged()
    assert run_check(world).passed
    delete_topic(world.settings, world.table.topic)
    assert wait_until(lambda: "does not exist" in (world.tick().skip_message or ""))
    topic_missing = run_check(world)
    assert (topic_missing.passed, topic_missing.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "does not exist" in topic_missing.description
    create_topic(world.settings, world.table)
    topic_recreated = run_check(world)
    assert (topic_recreated.passed, topic_recreated.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "repair gap" in topic_recreated.description
    assert world.fails(DataLossError) == topic_recreated.description
    assert len({*world.evaluations}) == 3  # a result is repeated after a materialization


def test_the_alarm_is_stored_by_dagster_on_disk(world: World, tmp_path: Path) -> None:
    (tmp_path / "dagster").mkdir()
    with dg.instance_for_test(temp_dir=str(tmp_path / "dagster")) as instance:
        world.instance = instance
        world.tick()
        write_log(world.log, Commit(**MERGED, source=other_topic(world), progress={0: 7}))
        world.fails(DataLossError)
        assert [has_passed for has_passed, _ in world.evaluations] == [True, False]


def other_topic(world: World) -> SourceId:
    """Another topic of the same name on the same cluster."""
    return replace(Incarnation.of(read_topic(world.settings, world.table.topic).source), topic_id="another").source
