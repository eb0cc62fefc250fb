"""Run the Dagster jobs of a new table in this process and return the results of their checks."""

from typing import Any

import dagster as dg

from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record


class Checked:
    """A new table and its Dagster jobs."""

    def __init__(self, stream: Stream, instance: dg.DagsterInstance) -> None:
        self.stream = stream
        self.instance = instance
        resources = {"lakehouse": LakehouseResource.with_settings(stream.settings)}
        self.defs = build_defs([stream.table], resources)

    def run(self, job: str) -> dict[str, dg.AssetCheckEvaluation]:
        """Run a job of the table; return the evaluations of its checks by name."""
        job_definition = self.defs.resolve_job_def(f"{job}_{self.stream.table.name}")
        run = job_definition.execute_in_process(instance=self.instance, raise_on_error=False)
        self.failures = [
            event.event_specific_data.user_failure_data.description for event in run.all_events if event.is_step_failure
        ]
        return {evaluation.check_name: evaluation for evaluation in run.get_asset_check_evaluations()}

    def send(self, latitude: float, number: int, **fields: Any) -> None:
        self.stream.send(record(latitude=latitude, time=hour(number), **fields))

    def spoil(self, latitude: float) -> None:
        """Overwrite a value of the rollup with a wrong one."""
        self.stream.sql(f"UPDATE {{rollup}} SET `rows` = 7 WHERE latitude = {latitude}")
