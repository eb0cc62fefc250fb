"""The asset whose partitions are days to replay, as Dagster loads it: no Spark, no broker."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest

from lakehouse.declaration import Topic
from lakehouse.defs.assets import replayed_asset
from lakehouse.defs.automation import CommitReporter
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.specs import CatalogEntry
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.log_tables import log_table
from lakehouse_tests.helpers.tables.logs import WrittenTable
from lakehouse_tests.helpers.tables.tables import redeclare

TABLE = redeclare(temperatures, replay_from=date(2026, 8, 1))
PAGE = (ROOT / "docs" / "how-to" / "restore.md").read_text(encoding="utf-8")
REPLAYED_KEY = dg.AssetKey("temperatures_replayed")


@pytest.fixture(scope="module")
def repository() -> dg.RepositoryDefinition:
    return build_defs([TABLE]).get_repository_def()


def test_a_table_with_the_line_of_the_page_has_the_asset_of_the_page() -> None:
    (line,) = re.findall(r"^ +(source=.*),$", PAGE, re.MULTILINE)
    options = eval(f"dict({line})", {"date": date, "Topic": Topic})  # noqa: S307 - the page's own example
    repository = build_defs([replace(temperatures, name="orders", topic="", **options)]).get_repository_def()
    assert dg.AssetKey("orders_replayed") in repository.assets_defs_by_key
    assert "asset `orders_replayed`" in PAGE


def test_without_a_first_day_there_is_no_such_asset() -> None:
    assert REPLAYED_KEY not in build_defs([temperatures]).get_repository_def().assets_defs_by_key


def test_the_partitions_are_the_days_from_the_declared_one_to_today_in_utc(repository: dg.RepositoryDefinition) -> None:
    partitions = repository.assets_defs_by_key[REPLAYED_KEY].partitions_def
    assert isinstance(partitions, dg.DailyPartitionsDefinition)
    keys = partitions.get_partition_keys(current_time=datetime(2026, 8, 2, 23, 59, tzinfo=UTC))
    assert keys == ["2026-08-01", "2026-08-02"]


def test_one_run_replays_all_chosen_days_in_the_pool_of_the_table(repository: dg.RepositoryDefinition) -> None:
    asset = repository.assets_defs_by_key[REPLAYED_KEY]
    assert asset.backfill_policy == dg.BackfillPolicy.single_run()
    assert asset.op.pool == "temperatures"
    assert [dep.asset_key for spec in asset.specs for dep in spec.deps] == [dg.AssetKey("temperatures")]
    assert [spec.name for spec in asset.check_specs] == ["rows_unchanged"]


def test_no_other_asset_has_partitions_or_a_policy(repository: dg.RepositoryDefinition) -> None:
    other_assets = [asset for key, asset in repository.assets_defs_by_key.items() if key != REPLAYED_KEY]
    assert {(asset.partitions_def, asset.backfill_policy) for asset in other_assets} == {(None, None)}


@pytest.mark.parametrize("job", ["merge_temperatures", "maintain_temperatures", "verify_temperatures"])
def test_no_job_of_the_table_replays(repository: dg.RepositoryDefinition, job: str) -> None:
    assert REPLAYED_KEY not in repository.get_job(job).asset_layer.executable_asset_keys


def test_the_check_of_a_log_table_names_no_change_feed() -> None:
    descriptions = {
        table.name: replayed_asset(CatalogEntry(table)).check_specs_by_output_name.values()
        for table in (TABLE, redeclare(log_table(), replay_from=date(2026, 8, 1)))
    }
    texts = {name: next(iter(specs)).description or "" for name, specs in descriptions.items()}
    assert [name for name, text in texts.items() if "_changes" in text] == ["temperatures"]


def test_a_run_without_days_says_what_to_choose() -> None:
    asset = replayed_asset(CatalogEntry(TABLE))
    run = dg.materialize([asset], resources={"lakehouse": LakehouseResource()}, raise_on_error=False)
    (failure,) = [event.step_failure_data for event in run.all_events if event.is_step_failure]
    assert failure.user_failure_data is not None
    assert failure.user_failure_data.description == (
        "The run has no days to replay (asset temperatures_replayed)."
        " Select the asset alone, choose Materialize, and then the days."
    )


def test_the_sensor_does_not_report_a_table_that_an_unfinished_replay_writes(
    repository: dg.RepositoryDefinition, settings: Settings
) -> None:
    merged = WrittenTable.create(Path(settings.table_uri("temperatures")), "temperatures")
    merged.merge(1)
    reporter = CommitReporter(CatalogEntry(TABLE))
    job = repository.get_job("__ASSET_JOB").get_subset(asset_selection={REPLAYED_KEY})
    with dg.DagsterInstance.ephemeral() as instance:
        status = dg.DagsterRunStatus.STARTING
        run = instance.create_run_for_job(job, run_id=str(uuid4()), asset_selection={REPLAYED_KEY}, status=status)
        reporter.report(instance, settings, None)
        assert instance.get_latest_materialization_event(dg.AssetKey("temperatures")) is None
        instance.report_run_failed(run)
        reporter.report(instance, settings, None)
        assert instance.get_latest_materialization_event(dg.AssetKey("temperatures")) is not None
