"""Run the Dagster definitions of one table and read the metadata of a run."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from lakehouse.defs.assets import MergeConfig
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.tables import redeclare

LINES = [line for line, _ in zip(temperatures.samples.stream(), range(90), strict=False)]
UNMAPPED_LINE = LINES[59].rstrip()[:-1] + b', "station": "north"}'  # an unmapped field
FIRST, SECOND = [*LINES[:59], UNMAPPED_LINE, b"{", b"[]"], LINES[60:]


class Lakehouse:
    """Definitions of one table with a new topic and new tables, and their runs."""

    def __init__(self, settings: Settings, instance: dg.DagsterInstance, topic: str, **changes: Any) -> None:
        self.settings = settings
        self.instance = instance
        self.table = redeclare(temperatures, topic=topic, **changes)
        self.resources = {"lakehouse": LakehouseResource.with_settings(settings)}
        self.defs = build_defs([self.table], self.resources)

    def run(self, job: str = "__ASSET_JOB", config: Mapping[str, Any] | None = None, **options: Any):
        return self.defs.resolve_job_def(job).execute_in_process(instance=self.instance, run_config=config, **options)

    def merge(self, config: MergeConfig) -> Mapping[str, Any]:
        run = self.run("merge_temperatures", dg.RunConfig(ops={"temperatures": config}).to_config_dict())
        return facts(run)["temperatures"]


def facts(run: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Return the metadata of every asset of a run, by asset name."""
    assert run.success
    materializations = [event.materialization for event in run.get_asset_materialization_events()]
    return {
        materialization.asset_key.to_user_string(): {
            name: entry.value for name, entry in materialization.metadata.items()
        }
        for materialization in materializations
    }


def all_runs(account: object) -> dict[str, Any]:
    """Return the figures of all batches of a table by name, from the metadata ``account``."""
    assert isinstance(account, dg.TableMetadataValue)
    return {str(row.data["figure"]): row.data["all_runs"] for row in account.records}


def checks(run: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {evaluation.check_name: evaluation for evaluation in run.get_asset_check_evaluations()}


def tick(definitions: dg.Definitions, instance: dg.DagsterInstance, sensor: str) -> tuple[list[str], str | None]:
    """Evaluate the sensor of a view or export; return the news of each requested run, and the skip reason."""
    repository = definitions.get_repository_def()
    resources = repository.get_top_level_resources()
    with dg.build_sensor_context(instance, repository_def=repository, resources=resources) as context:
        result = repository.get_sensor_def(sensor).evaluate_tick(context)
    return [request.tags["lakehouse/news"] for request in result.run_requests or ()], result.skip_message
