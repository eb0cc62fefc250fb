"""What stops a table is never an idle tick: the tick fails, and a check of the table says why until it is cured."""

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
from lakehouse.kafka import Incarnation, create_topic, delete_topic, look, publish
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import app_id
from lakehouse.ledger.positions import SourceId
from lakehouse_tests.helpers.sensors import ALARM, MERGED, World, write_log
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.invariant(9, 12)

LINES = [line for line, _ in zip(temperatures.samples.stream(), range(40), strict=False)]


def test_a_topic_made_anew_fails_the_tick_and_a_check_until_it_is_cured(world: World) -> None:
    publish(world.settings, world.table, LINES)
    world.merged()
    world.tick()
    before = len(world.evaluations)
    delete_topic(world.settings, world.table.topic)
    assert wait_until(lambda: "does not exist" in (world.tick().skip_message or ""))
    create_topic(world.settings, world.table)
    said = world.fails(DataLossError)
    assert "deleted and created again" in said
    assert "lakehouse accept-gap temperatures" in said
    assert world.evaluations[before:] == [(False, said)]
    assert world.fails(DataLossError) == said
    assert len(world.evaluations) == before + 1
    world.merged()
    assert not world.tick().run_requests
    world.tick()
    assert [passed for passed, _ in world.evaluations[before:]] == [False, True]


def test_records_deleted_below_the_progress_fail_the_tick_and_are_named(world: World) -> None:
    world.merged()
    publish(world.settings, world.table, LINES)
    held = look(world.settings, world.table.topic).end
    lost = next(partition for partition, end in held.items() if end > 1)
    world.delete_records({lost: 2})
    said = world.fails(DataLossError)
    assert f"Partition {lost}: records from 0 to 1 were deleted before they were merged" in said
    assert world.evaluations[-1] == (False, said)


def test_a_log_that_cannot_be_read_fails_the_tick(world: World) -> None:
    world.merged()
    whole = next(world.log.iterdir())
    kept = whole.read_bytes()
    whole.write_text("{")
    assert world.fails(TableError) == world.evaluations[-1][1]
    whole.write_bytes(kept)
    world.tick()
    assert world.evaluations[-1][0]


def test_a_log_that_no_longer_tells_the_progress_fails_the_tick(world: World) -> None:
    rows, uri = {"n": [1]}, world.settings.table_uri("temperatures")
    numbered = CommitProperties(app_transactions=[Transaction(app_id("temperatures"), 7)])
    for _ in range(2):
        write_deltalake(uri, pa.table(rows), mode="append", commit_properties=numbered)
    DeltaTable(uri).create_checkpoint()
    (world.log / f"{0:020}.json").unlink()
    assert "lakehouse recover-progress temperatures" in world.fails(LedgerError)
    assert not world.evaluations[-1][0]


def test_a_setting_that_cannot_be_used_fails_the_tick(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_SECURITY_PROTOCOL", "TSL")
    world.resources["lakehouse"] = LakehouseResource()
    assert "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL" in world.fails(SettingsError)
    assert not world.evaluations[-1][0]


def test_an_error_that_nobody_foresaw_fails_the_tick_and_the_check(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(waiting, "merged_ledger", broken)
    with pytest.raises(RuntimeError):
        world.tick()
    assert world.evaluations == [(False, "RuntimeError: nobody foresaw this")]


def test_a_broker_that_is_away_leaves_the_check_as_it_is(world: World) -> None:
    publish(world.settings, world.table, LINES)
    world.tick()
    before = world.evaluations
    delete_topic(world.settings, world.table.topic)
    assert wait_until(lambda: "does not exist" in (world.tick().skip_message or ""))
    assert world.evaluations == before


def asked_for(world: World) -> dg.AssetCheckEvaluation:
    """Execute the check as the button in the UI does."""
    every = world.defs.resolve_implicit_global_asset_job_def()
    job = every.get_subset(asset_selection=set(), asset_check_selection={ALARM})
    (found,) = job.execute_in_process(instance=world.instance).get_asset_check_evaluations()
    return found


def test_who_asks_for_the_check_gets_the_same_answer_without_spark(world: World) -> None:
    world.merged()
    assert asked_for(world).passed
    delete_topic(world.settings, world.table.topic)
    assert wait_until(lambda: "does not exist" in (world.tick().skip_message or ""))
    away = asked_for(world)
    assert (away.passed, away.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "does not exist" in away.description
    create_topic(world.settings, world.table)
    lost = asked_for(world)
    assert (lost.passed, lost.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "accept-gap" in lost.description
    assert world.fails(DataLossError) == lost.description
    assert len(world.evaluations) == 3


def test_the_alarm_is_kept_where_dagster_keeps_it_on_disk(world: World, tmp_path: Path) -> None:
    (tmp_path / "dagster").mkdir()
    with dg.instance_for_test(temp_dir=str(tmp_path / "dagster")) as instance:
        world.instance = instance
        world.tick()
        write_log(world.log, Commit(**MERGED, source=other(world), progress={0: 7}))
        world.fails(DataLossError)
        assert [passed for passed, _ in world.evaluations] == [True, False]


def other(world: World) -> SourceId:
    """Another topic of that name on the same cluster."""
    return replace(Incarnation.of(look(world.settings, world.table.topic).source), topic_id="another").source
