"""The newest finished runs of a job, without those of other code locations, whose jobs may have the same names."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.remote_origin import RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorType
from dagster._core.storage.tags import REPOSITORY_LABEL_TAG

_STATUSES = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS]


def sensor_location(context: dg.SensorEvaluationContext) -> str | None:
    """The code location of a sensor, as Dagster labels the runs of it; ``None`` if a test built the context."""
    origin, repository = context.code_location_origin, context.repository_name
    if origin is None or repository is None:
        return None
    return RemoteRepositoryOrigin(origin, repository).get_label()


def schedule_location(instance: dg.DagsterInstance, schedule: str) -> str | None:
    """The code location that has a schedule of this name, which its context does not say.

    Empty if several have one, and ``None`` if Dagster stored none, as for an instance of a test.
    """
    if instance.schedule_storage is None:
        return None
    states = instance.all_instigator_state(instigator_type=InstigatorType.SCHEDULE)
    labels = {state.origin.repository_origin.get_label() for state in states if state.instigator_name == schedule}
    return next(iter(labels), None) if len(labels) < 2 else ""


def run_location(run: dg.DagsterRun) -> str | None:
    """The code location of a run; ``None`` if Dagster stored none, as for ``dagster job execute``."""
    return run.remote_job_origin.repository_origin.get_label() if run.remote_job_origin else None


def read_finished_runs(
    instance: dg.DagsterInstance, job: str, limit: int, location: str | None
) -> Sequence[dg.RunRecord]:
    """Read the newest runs of a job that failed or succeeded, newest first; canceled runs are left out.

    Reads runs of all code locations if ``location`` is ``None``, otherwise its own. A run without a location counts for
    each, if it is among the newest ``limit`` runs of all.
    """
    newest = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=_STATUSES), limit=limit)
    if location is None or all(run_location(record.dagster_run) in (None, location) for record in newest):
        return newest
    own_filter = dg.RunsFilter(job_name=job, statuses=_STATUSES, tags={REPOSITORY_LABEL_TAG: location})
    own_records = instance.get_run_records(own_filter, limit=limit)
    unlabeled_records = [record for record in newest if run_location(record.dagster_run) is None]
    return sorted([*own_records, *unlabeled_records], key=lambda record: record.storage_id, reverse=True)[:limit]
