"""A catalog in Dagster: a check of each table, and a sensor that requests a run after a change."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from lakehouse.catalogs.registration import Registrable
from lakehouse.defs.build import build_defs
from lakehouse.errors import StoreUnreachableError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.code_locations import sensor_context
from lakehouse_tests.helpers.declaration_files import declare
from lakehouse_tests.helpers.tables.exported import append, day
from lakehouse_tests.unit.catalogs.test_register_verb import DECLARATIONS
from lakehouse_tests.unit.exports.test_exports_in_dagster import SALES

SENSOR, JOB, LOCATION = "register_tables_sensor", "register_tables", "lakehouse"


class Location:
    """The definitions of a project, an instance that runs them, and the cursor of the sensor."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.definitions, self.instance = build_defs(), instance
        self.cursor: str | None = None

    def tick(self) -> tuple[int, str | None]:
        """Evaluate the sensor; return how many runs it requests, and why it requests none."""
        sensor = self.definitions.resolve_sensor_def(SENSOR)
        resources = self.definitions.get_repository_def().get_top_level_resources()
        with sensor_context(self.definitions, self.instance, resources, self.cursor, LOCATION) as context:
            result = sensor.evaluate_tick(context)
        self.cursor = result.cursor or self.cursor
        return len(result.run_requests or ()), result.skip_message

    def run(self) -> bool:
        job = self.definitions.resolve_job_def(JOB)
        return job.execute_in_process(instance=self.instance, raise_on_error=False).success

    def check(self, table: str) -> dg.AssetCheckEvaluation:
        key = dg.AssetCheckKey(dg.AssetKey(table), "registered")
        job = self.definitions.resolve_implicit_global_asset_job_def()
        job = job.get_subset(asset_selection=set(), asset_check_selection={key})
        (evaluation,) = job.execute_in_process(instance=self.instance).get_asset_check_evaluations()
        return evaluation


@pytest.fixture
def settings(aws: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A project whose table and view exist."""
    declare(tmp_path, monkeypatch, sales=DECLARATIONS)
    monkeypatch.setenv("LAKEHOUSE_CATALOG", "glue://eu-central-1/lake")
    monkeypatch.setenv("LAKEHOUSE_CATALOG_FOLLOWS", "true")
    settings = Settings.load()
    for name in ("sales", "all_sales"):
        append(settings, ("a", 1.0, day(1)), name=name)
    return settings


def test_the_sensor_requests_a_run_after_each_change_of_a_table_but_not_of_rows(settings: Settings, aws: Any) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        location = Location(instance)
        assert location.tick() == (1, None)
        assert location.run()
        names = [table["Name"] for table in aws.get_tables(DatabaseName="lake")["TableList"]]
        assert sorted(names) == ["all_sales", "sales"]
        no_news = (0, "No news: each table is as it was when it was registered.")
        assert location.tick() == no_news
        append(settings, ("b", 2.0, day(2)))
        assert location.tick() == no_news
        DeltaTable(settings.table_uri("sales")).alter.add_columns(Field("tags", PrimitiveType("integer")))
        assert location.tick() == (1, None)
        assert location.run()
        assert location.tick() == no_news


def test_a_run_that_failed_is_requested_again_after_a_pause(settings: Settings, aws: Any) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        location = Location(instance)
        aws.delete_database(Name="lake")
        assert location.tick() == (1, None)
        assert not location.run()
        requests, reason = location.tick()
        assert (requests, "of register_tables failed. The sensor requests it again at" in str(reason)) == (0, True)


def test_the_check_of_a_table_warns_of_drift_and_of_a_catalog_that_is_away(settings: Settings, aws: Any) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        location = Location(instance)
        drift = location.check("sales")
        assert (drift.passed, drift.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert "It is not registered. Correct it: lakehouse register sales" in str(drift.description)
        location.run()
        assert location.check("sales").passed
        assert location.check("sales_changes").passed, "it does not exist yet"
        aws.create_table(DatabaseName="lake", TableInput={"Name": "sales_changes"})
        append(settings, ("a", 1.0, day(1)), name="sales_changes")
        assert "that lakehouse did not register" in str(location.check("sales_changes").description)
        job = location.definitions.resolve_job_def("verify_sales")
        assert "sales_registered" in {node.name for node in job.nodes}


def test_a_run_that_was_canceled_is_requested_again(settings: Settings) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        location = Location(instance)
        assert location.tick() == (1, None)
        instance.create_run_for_job(location.definitions.resolve_job_def(JOB), status=dg.DagsterRunStatus.CANCELED)
        assert location.tick() == (1, None)


def test_a_broken_log_and_a_broken_declaration_stop_no_other_table(settings: Settings, aws: Any) -> None:
    (Path(str(settings.declarations)) / "broken.py").write_text("1 / 0")
    (log,) = (Path(settings.table_uri("all_sales")) / "_delta_log").glob("*.json")
    log.write_text("{")
    with dg.DagsterInstance.ephemeral() as instance:
        location = Location(instance)
        assert location.tick() == (1, None)
        assert not location.run()
        assert [table["Name"] for table in aws.get_tables(DatabaseName="lake")["TableList"]] == ["sales"]


def test_a_store_that_is_away_is_waited_for_once_in_a_tick(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(table: Registrable) -> None:
        names.append(table.layout.name)
        raise StoreUnreachableError("away")

    names: list[str] = []
    monkeypatch.setattr(Registrable, "read", read)
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(StoreUnreachableError):
        Location(instance).tick()
    assert names == ["sales"]


def test_the_check_warns_if_a_registered_table_does_not_exist(settings: Settings) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        location = Location(instance)
        location.run()
        shutil.rmtree(settings.table_uri("sales"))
        check = location.check("sales")
        assert (check.passed, "sales does not exist" in str(check.description)) == (False, True)


def test_the_check_warns_if_the_catalog_cannot_be_opened(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        monkeypatch.setitem(sys.modules, "boto3", None)
        check = Location(instance).check("sales")
        assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert "pip install 'dagster-lakehouse[glue]'" in str(check.description)


@pytest.mark.usefixtures("settings")
def test_without_the_settings_there_is_neither_a_check_nor_a_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = dg.Definitions.merge(build_defs([SALES]), build_defs([replace(SALES, name="others", topic="others")]))
    assert parts.get_repository_def().has_sensor_def(SENSOR), "several calls have one sensor"
    monkeypatch.delenv("LAKEHOUSE_CATALOG_FOLLOWS")
    assert not build_defs().get_repository_def().has_sensor_def(SENSOR)
    monkeypatch.delenv("LAKEHOUSE_CATALOG")
    assert "registered" not in {key.name for key in build_defs().resolve_asset_graph().asset_check_keys}
