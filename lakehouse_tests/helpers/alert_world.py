"""One table whose alerts are sent: its definitions, an instance with its runs and checks, and the sensor's cursor."""

from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse_tests.helpers.code_locations import create_run, sensor_context

MERGED = dg.AssetKey("temperatures")
MERGE_JOB, BUTTON_JOB = "merge_temperatures", "__ASSET_JOB"
CHECK = "temperatures:keys_unique"
FAILED, PASSED = False, True
FAILURE, SUCCESS, CANCELED = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED)
EVENTS = {
    FAILURE: dg.DagsterEventType.RUN_FAILURE,
    SUCCESS: dg.DagsterEventType.RUN_SUCCESS,
    CANCELED: dg.DagsterEventType.RUN_CANCELED,
}


@cache
def all_definitions() -> dg.Definitions:
    return build_defs([temperatures])


class World:
    """The definitions of one table, an instance with their runs and checks, and the cursor of the sensor.

    ``location`` is the code location of the sensor, ``None`` if Dagster does not name it.
    """

    def __init__(self, instance: dg.DagsterInstance, home: Path, url: str) -> None:
        self.instance, self.home = instance, home
        self.cursor: str | None = None
        self.location: str | None = None
        self.defs = all_definitions()
        self.use(alert_url=url)

    def use(self, **changes: Any) -> None:
        """Continue with these settings."""
        settings = Settings(home=self.home, _env_file=None, **changes)
        self.resources = {"lakehouse": LakehouseResource.with_settings(settings)}

    def tick(self) -> str:
        """Evaluate the sensor as the daemon does; return the skip reason."""
        with sensor_context(self.defs, self.instance, self.resources, self.cursor, self.location) as context:
            result = self.defs.resolve_sensor_def("temperatures_alerts").evaluate_tick(context)
        self.cursor = result.cursor or self.cursor
        assert not result.run_requests
        return result.skip_message or ""

    def end_run(
        self, status: dg.DagsterRunStatus, job: str = MERGE_JOB, *keys: str, location: str | None = None
    ) -> str:
        """Record a run that ended with this status; return its id."""
        run_id = create_run(self.instance, self.defs, job, *keys, location=location).run_id
        event = dg.DagsterEvent(EVENTS[status].value, job, message=f"It ended with {status.value}.")
        self.instance.report_dagster_event(event, run_id)
        return run_id

    def plan_checks(self) -> str:
        """Record a run that plans the checks of whole tables; return its id."""
        return create_run(self.instance, self.defs, "verify_temperatures").run_id

    def merge_without_broker(self) -> str:
        """Execute the merge job, which needs a broker before it starts Spark; return the id of the failed run."""
        job = build_defs([temperatures], self.resources).resolve_job_def(MERGE_JOB)
        return job.execute_in_process(instance=self.instance, raise_on_error=False).run_id

    def evaluate_in(self, run_id: str, passed: bool) -> None:
        """Report the evaluation of a check that a run planned."""
        evaluation = dg.AssetCheckEvaluation(MERGED, "keys_unique", passed)
        event_type = dg.DagsterEventType.ASSET_CHECK_EVALUATION.value
        event = dg.DagsterEvent(event_type, "verify_temperatures", event_specific_data=evaluation)
        self.instance.report_dagster_event(event, run_id)

    def evaluate(self, passed: bool, text: str = "", **options: Any) -> None:
        """Report an evaluation of a check."""
        evaluation = dg.AssetCheckEvaluation(MERGED, "keys_unique", passed, description=text, **options)
        self.instance.report_runless_asset_event(evaluation)
