"""A table of its own whose jobs of Dagster run in this process, and what their checks found."""

from typing import Any

import dagster as dg

from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record


class Checked:
    """A table of its own and the jobs that Dagster makes of it."""

    def __init__(self, stream: Stream, instance: dg.DagsterInstance) -> None:
        self.stream = stream
        self.instance = instance
        resources = {"lakehouse": LakehouseResource.with_settings(stream.settings)}
        self.defs = build_defs([stream.table], resources)

    def run(self, job: str) -> dict[str, dg.AssetCheckEvaluation]:
        """Run a job of the table; what its checks found."""
        made = self.defs.resolve_job_def(f"{job}_{self.stream.table.name}")
        run = made.execute_in_process(instance=self.instance, raise_on_error=False)
        self.failures = [
            e.event_specific_data.user_failure_data.description for e in run.all_events if e.is_step_failure
        ]
        return {one.check_name: one for one in run.get_asset_check_evaluations()}

    def send(self, latitude: float, number: int, **more: Any) -> None:
        self.stream.send(record(latitude=latitude, time=hour(number), **more))

    def spoil(self, latitude: float) -> None:
        """Change a figure of a group by hand."""
        self.stream.sql(f"UPDATE {{rollup}} SET `rows` = 7 WHERE latitude = {latitude}")
