"""Sinks in Dagster, on the command line and in the status: as exports, all without a JVM."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest

from lakehouse.cli import main
from lakehouse.declaration import Upkeep
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.operations.readers import VacuumReaders
from lakehouse.operations.status import status
from lakehouse_tests.helpers.dagster_runs import tick
from lakehouse_tests.helpers.declaration_files import write
from lakehouse_tests.helpers.tables.delivered import SALES as SINK
from lakehouse_tests.helpers.tables.delivered import Target
from lakehouse_tests.helpers.tables.exported import day, delete, merge
from lakehouse_tests.unit.exports.test_exports_in_dagster import SALES

SENSOR = "sales_in_postgres_sensor"
DECLARATIONS = """
from lakehouse import Column, PostgresTable, Sink, StreamTable

sales = StreamTable(
    name="sales", topic="sales", doc="Sales.", columns=[Column("id", "STRING", required=True, doc="Id.")], key=["id"]
)
sink = Sink("sales_in_postgres", of="sales", to=PostgresTable("sales"), file=__file__)
"""


@pytest.fixture
def definitions(target: Target) -> dg.Definitions:
    return build_defs([SALES, SINK], {"lakehouse": LakehouseResource.with_settings(target.settings)})


def run_job(definitions: dg.Definitions, instance: dg.DagsterInstance, **options: Any) -> Any:
    job = definitions.resolve_job_def("export_sales_in_postgres")
    return job.execute_in_process(instance=instance, raise_on_error=False, **options)


def test_a_sink_is_an_asset_with_a_check(definitions: dg.Definitions) -> None:
    spec = definitions.resolve_assets_def("sales_in_postgres").get_asset_spec()
    assert [dep.asset_key.to_user_string() for dep in spec.deps] == ["sales"]
    assert (spec.group_name, spec.kinds) == ("sales", {"postgresql", "table"})
    assert spec.description == "The rows of sales in the table public.sales in postgres."
    assert not build_defs([SALES, replace(SINK, enabled=False)]).get_repository_def().has_sensor_def(SINK.sensor_name)


def test_the_sensor_requests_a_run_that_reports_its_figures(definitions: dg.Definitions, target: Target) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert tick(definitions, instance, SENSOR) == (["nothing was written yet"], None)
        result = run_job(definitions, instance)
        (event,) = result.asset_materializations_for_node("sales_in_postgres")
        figures = {name: entry.value for name, entry in event.metadata.items()}
        assert (figures["rows_written"], figures["rows_deleted"], figures["consumed_version"]) == (3, 0, 0)
        assert (figures["published"], figures["target"]) == ("whole", "table public.sales in postgres")
        assert not result.get_asset_check_evaluations(), "a comparison of everything is not for each run"
        assert tick(definitions, instance, SENSOR)[0] == []
        merge(target.settings, ("a", 1.5, day(1)))
        assert tick(definitions, instance, SENSOR)[0] == ["rows of sales may have changed"]
        assert run_job(definitions, instance).success
    assert target.stored_rows() == target.table_rows()


def test_the_check_compares_the_target_with_the_table(definitions: dg.Definitions, target: Target) -> None:
    target.update()
    target.run("UPDATE sales SET price = 7 WHERE id = 'a'")
    check = dg.AssetCheckKey(dg.AssetKey("sales_in_postgres"), "equals_table")
    with dg.DagsterInstance.ephemeral() as instance:
        job = definitions.resolve_implicit_global_asset_job_def()
        job = job.get_subset(asset_selection=set(), asset_check_selection={check})
        result = job.execute_in_process(instance=instance)
        (evaluation,) = result.get_asset_check_evaluations()
    assert (evaluation.passed, "1 rows have other values" in (evaluation.description or "")) == (False, True)


def test_the_command_and_the_status_have_sinks(target: Target, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    file = target.settings.home_folder / "sales.py"
    write(file.parent, "sales", DECLARATIONS)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(target.settings.home_folder))
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", str(file))
    url = target.settings.sink_addresses["postgres"]
    monkeypatch.setenv("LAKEHOUSE_SINK_URLS", json.dumps({"postgres": url}))
    assert main.run(["export"]) == 0
    assert "sales_in_postgres   sales               0   whole      3         0     0" in capsys.readouterr().out
    assert target.stored_rows() == target.table_rows()
    assert main.run(["export", "--print"]) == 0
    statements = capsys.readouterr().out
    assert 'CREATE TABLE "public"."sales" ("id" text, "price" double precision, "sold_at" timestamp with' in statements
    assert 'ALTER TABLE "public"."sales" ADD PRIMARY KEY ("id");' in statements


def test_status_and_maintenance_know_how_far_a_sink_is(target: Target) -> None:
    log_table = replace(SALES, key=())
    object.__setattr__(log_table, "upkeep", Upkeep(timedelta(0)))
    target.update()
    delete(target.settings, "id = 'a'")
    (state,) = status(target.settings, SALES, [target.sink]).exports
    assert (state.export, state.source_version, state.lag, state.target) == (
        "sales_in_postgres",
        0,
        1,
        "table public.sales in postgres",
    )
    reason = VacuumReaders(target.settings, log_table, "sales", {}, [target.sink]).reason_to_wait()
    expected_reason = (
        "sink sales_in_postgres has read sales only up to version 0. Run: lakehouse export sales_in_postgres"
    )
    assert reason == expected_reason
    target.update()
    assert VacuumReaders(target.settings, log_table, "sales", {}, [target.sink]).reason_to_wait() is None
