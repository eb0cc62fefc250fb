"""Exports in Dagster: an asset behind its table, a job and a sensor, all without a JVM."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Day, Export, StreamTable, Time
from lakehouse.defs import maintenance_job
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import DeclarationError, TableError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.dagster_runs import tick
from lakehouse_tests.helpers.declaration_files import write
from lakehouse_tests.helpers.tables.exported import append, day

SALES = StreamTable(
    name="sales",
    topic="sales",
    doc="Sales.",
    columns=[
        Column("id", "STRING", required=True, doc="Id."),
        Column("price", "DOUBLE", doc="Price."),
        Column("sold_at", "TIMESTAMP", written=Time("iso8601"), doc="Time."),
    ],
    key=["id"],
)
CHANGED = Export("sales_changed", of="sales", by=Day("sold_at"), changes=True, file=__file__)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, sync=False)


@pytest.fixture
def definitions(settings: Settings) -> dg.Definitions:
    return build_defs([SALES, CHANGED], {"lakehouse": LakehouseResource.with_settings(settings)})


def run_job(definitions: dg.Definitions, instance: dg.DagsterInstance, **options: Any) -> Any:
    job = definitions.resolve_job_def("export_sales_changed")
    return job.execute_in_process(instance=instance, raise_on_error=False, **options)


def metadata_of(result: Any) -> dict[str, Any]:
    (event,) = result.asset_materializations_for_node("sales_changed")
    return {name: entry.value for name, entry in event.metadata.items()}


def test_an_export_is_an_asset_behind_its_table(definitions: dg.Definitions) -> None:
    spec = definitions.resolve_assets_def("sales_changed").get_asset_spec()
    assert [dep.asset_key.to_user_string() for dep in spec.deps] == ["sales"]
    assert (spec.group_name, spec.kinds, spec.owners) == ("sales", {"parquet", "file"}, ["team:lakehouse"])
    assert spec.description == "Files with what changed in sales, as parquet."
    (reference,) = spec.metadata["dagster/code_references"].code_references
    assert reference.file_path == __file__


def test_prefix_group_and_owners_are_those_of_the_call() -> None:
    definitions = build_defs([SALES, CHANGED], key_prefix=["shop"], group="shops", owners=["team:sales"])
    spec = definitions.resolve_assets_def(dg.AssetKey(["shop", "sales_changed"])).get_asset_spec()
    assert [dep.asset_key for dep in spec.deps] == [dg.AssetKey(["shop", "sales"])]
    assert (spec.group_name, spec.owners) == ("shops", ["team:sales"])


def test_a_disabled_export_has_neither_a_job_nor_a_sensor() -> None:
    definitions = build_defs([SALES, replace(CHANGED, enabled=False)])
    repository = definitions.get_repository_def()
    assert not repository.has_job("export_sales_changed")
    assert not repository.has_sensor_def("sales_changed_sensor")
    (spec,) = [spec for spec in definitions.resolve_all_asset_specs() if spec.key.path == ["sales_changed"]]
    assert spec.description.endswith("It is disabled.")


@pytest.mark.invariant("10.9")
def test_maintenance_waits_for_the_exports_of_the_call_and_for_those_that_only_commands_run(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "first")
    write(folder, "own", 'from lakehouse import Export\nown = Export("own", of="first")')
    export_names: list[str] = []

    def maintain(_context: Any, _on_table: Any, exports: list[Export]) -> list[Any]:
        export_names.extend(export.name for export in exports)
        return []

    monkeypatch.setattr(maintenance_job, "maintain", maintain)
    monkeypatch.setattr(LakehouseResource, "table_context", lambda *_: None)
    job_settings = settings.model_copy(update={"declarations": str(folder)})
    definitions = build_defs([SALES, CHANGED], {"lakehouse": LakehouseResource.with_settings(job_settings)})
    assert definitions.resolve_job_def("maintain_sales").execute_in_process().success
    assert sorted(export_names) == ["own", "sales_changed"]


def test_an_export_needs_its_table_in_the_same_call() -> None:
    with pytest.raises(DeclarationError, match="Export 'sales_changed': unknown table sales"):
        build_defs([CHANGED])


def test_the_sensor_requests_a_run_only_if_there_is_news(definitions, instance, settings) -> None:
    assert tick(definitions, instance, "sales_changed_sensor") == (
        [],
        "sales_changed reads sales, which does not exist yet.",
    )
    append(settings, ("a", 1.0, day(1)))
    assert tick(definitions, instance, "sales_changed_sensor") == (["nothing is exported yet"], None)
    assert run_job(definitions, instance).success
    assert tick(definitions, instance, "sales_changed_sensor") == ([], "No news: sales_changed has every row of sales.")
    append(settings, ("b", 1.0, day(1)))
    assert tick(definitions, instance, "sales_changed_sensor") == (["rows of sales may have changed"], None)


def test_a_materialization_has_what_was_written_and_the_lag_in_versions(definitions, instance, settings) -> None:
    append(settings, ("a", 1.0, day(1)), ("b", 1.0, day(2)))
    names = ("published", "export_version", "consumed_version", "lag_versions", "rows_written", "files_written")

    def run_figures() -> list[Any]:
        metadata = metadata_of(run_job(definitions, instance))
        assert Path(metadata["manifest"]).exists()
        return [metadata[name] for name in names]

    assert run_figures() == ["whole", 1, 0, 0, 2, 2]
    append(settings, ("c", 1.0, day(3)))
    assert run_figures() == ["changes", 2, 1, 0, 1, 1]
    assert run_figures() == ["no news", 2, 1, 0, 0, 0]


def test_an_export_that_cannot_continue_fails_until_a_whole_run(definitions, instance, settings) -> None:
    append(settings, ("a", 1.0, day(1)))
    assert run_job(definitions, instance).success
    append(settings, ("b", 1.0, day(1)))
    DeltaTable(settings.table_uri("sales")).restore(0)
    result = run_job(definitions, instance)
    assert "version 2 is a RESTORE" in str(result.failure_data_for_node("sales_changed"))
    config = {"ops": {"sales_changed": {"config": {"whole": True}}}}
    assert metadata_of(run_job(definitions, instance, run_config=config))["published"] == "whole"


def test_an_export_of_a_table_that_was_created_again_fails_the_tick(definitions, instance, settings) -> None:
    append(settings, ("a", 1.0, day(1)))
    assert run_job(definitions, instance).success
    Path(settings.table_uri("sales")).rename(Path(settings.tables_root, "former"))
    append(settings, ("a", 1.0, day(1)))
    with pytest.raises((TableError, dg.DagsterError)) as error:
        tick(definitions, instance, "sales_changed_sensor")
    assert "sales was created again" in f"{error.value} {error.value.__cause__}"
