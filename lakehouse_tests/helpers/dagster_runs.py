"""Definitions of one table as Dagster runs them, and what a run told."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dagster as dg

from lakehouse.defs.build import build_defs
from lakehouse.defs.config import MergeConfig
from lakehouse.defs.resources import LakehouseResource
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings

LINES = [line for line, _ in zip(temperatures.samples.stream(), range(90), strict=False)]
MORE = LINES[59].rstrip()[:-1] + b', "station": "north"}'  # a field that no column takes
FIRST, SECOND = [*LINES[:59], MORE, b"{", b"[]"], LINES[60:]


class Lakehouse:
    """Definitions of one table with a topic and tables of its own, and the runs made of them."""

    def __init__(self, settings: Settings, instance: dg.DagsterInstance, topic: str, **declared: Any) -> None:
        self.settings = settings
        self.instance = instance
        self.table = replace(temperatures, topic=topic, **declared)
        self.resources = {"lakehouse": LakehouseResource.with_settings(settings)}
        self.defs = build_defs([self.table], self.resources)

    def run(self, job: str = "__ASSET_JOB", config: Mapping[str, Any] | None = None, **options: Any):
        return self.defs.resolve_job_def(job).execute_in_process(instance=self.instance, run_config=config, **options)

    def merge(self, config: MergeConfig) -> Mapping[str, Any]:
        run = self.run("merge_temperatures", dg.RunConfig(ops={"temperatures": config}).to_config_dict())
        return facts(run)["temperatures"]


def facts(run: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """What each asset of a run told, by its name."""
    assert run.success
    told = [event.materialization for event in run.get_asset_materialization_events()]
    return {one.asset_key.to_user_string(): {name: entry.value for name, entry in one.metadata.items()} for one in told}


def checks(run: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {one.check_name: one for one in run.get_asset_check_evaluations()}
