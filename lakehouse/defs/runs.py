"""The runs of jobs and the results of checks: unfinished ones that write an asset, and the newest finished ones."""

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Literal

import dagster as dg
from dagster._core.remote_origin import RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorType
from dagster._core.snap import ExecutionPlanSnapshot
from dagster._core.storage.tags import REPOSITORY_LABEL_TAG

from lakehouse.defs.ended_runs import STOPPED_TAG, UNFINISHED, fail_if_dead, run_location
from lakehouse.defs.specs import CatalogEntry, step_name

_STATUSES = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS]
COMMITTED_AT = "committed_at"  # metadata of a materialization without a run: when its rows were merged
_FIRST_PAUSE, _LONGEST = timedelta(minutes=1), timedelta(hours=1)
_COUNTED_FAILURES = 8  # consecutive failures that reach the longest pause; more make no difference
BUTTON_RUNS = "materialization"
"""The beginning of the subject of runs without a job of their own, which names their assets of the table.

These are the runs of the Materialize button, of backfills and of automation. Runs of other assets are other subjects.
"""
_BUTTON_JOB = "__ASSET_JOB"  # Dagster's name of the job of such runs
_LIMIT, _BUTTON_LIMIT = 20, 50  # newest records to read; the runs of the button are those of all tables
_FAILURE = dg.DagsterRunStatus.FAILURE
_MOST_PLANS = 200
_PLANS: dict[str, ExecutionPlanSnapshot] = {}


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


def read_finished_runs(
    instance: dg.DagsterInstance,
    job: str,
    limit: int,
    location: str | None,
    statuses: Sequence[dg.DagsterRunStatus] = _STATUSES,
) -> Sequence[dg.RunRecord]:
    """Read the newest runs of a job that failed or succeeded, newest first; by default, canceled runs are left out.

    Reads runs of all code locations if ``location`` is ``None``, otherwise its own. A run without a location counts for
    each, if it is among the newest ``limit`` runs of all.
    """
    newest = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=list(statuses)), limit=limit)
    if location is None or all(run_location(record.dagster_run) in (None, location) for record in newest):
        return newest
    own_filter = dg.RunsFilter(job_name=job, statuses=list(statuses), tags={REPOSITORY_LABEL_TAG: location})
    own_records = instance.get_run_records(own_filter, limit=limit)
    unlabeled_records = [record for record in newest if run_location(record.dagster_run) is None]
    return sorted([*own_records, *unlabeled_records], key=lambda record: record.storage_id, reverse=True)[:limit]


def unfinished_run(
    instance: dg.DagsterInstance, key: dg.AssetKey, location: str | None, job: str | None = None
) -> dg.DagsterRun | None:
    """Return an unfinished run that writes the asset, or that is a run of the job; ``None`` if there is none.

    A run whose process died together with Dagster would stay unfinished forever. This function reports such a run as
    failed and ignores it. It judges only runs of the code location ``location``, and those without one: the process of
    another location may be in another container. ``None`` means all.
    """
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
    writers = (run for run in runs if run.job_name == job or _writes(instance, run, key))
    return next((run for run in writers if not fail_if_dead(instance, run, location)), None)


def unfinished_run_of_job(instance: dg.DagsterInstance, job: str, location: str | None) -> dg.DagsterRun | None:
    """Return an unfinished run of the job; ``None`` if there is none. A run whose process died is reported as failed.

    Unlike ``unfinished_run``, it ignores runs of other jobs that write the same tables.
    """
    runs = instance.get_runs(filters=dg.RunsFilter(job_name=job, statuses=UNFINISHED))
    return next((run for run in runs if not fail_if_dead(instance, run, location)), None)


def _writes(instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey) -> bool:
    """Whether the steps of a run write the asset, independent of the job or button that started it."""
    if run.execution_plan_snapshot_id is None:
        return key in (run.asset_selection or ())
    plan = _read_plan(instance, run.execution_plan_snapshot_id)
    steps = [step for step in plan.steps if step.key in plan.step_keys_to_execute]
    # a step that writes several assets has no output for those that the run did not select
    return any(step.key == step_name(key) or any(out.entity_key == key for out in step.outputs) for step in steps)


def _read_plan(instance: dg.DagsterInstance, snapshot_id: str) -> ExecutionPlanSnapshot:
    """The plan of a run, read once: its id is a hash, and each tick of each table asks for all unfinished runs."""
    plan = _PLANS.get(snapshot_id)
    if plan is None:
        plan = instance.get_execution_plan_snapshot(snapshot_id)
        if len(_PLANS) >= _MOST_PLANS:
            _PLANS.clear()
        _PLANS[snapshot_id] = plan
    return plan


def pause_after(failures: int) -> timedelta:
    """The pause before the next request, after this number of consecutive failures (at least one)."""
    return min(_FIRST_PAUSE * (1 << min(failures - 1, _COUNTED_FAILURES)), _LONGEST)


def reason_to_wait(
    instance: dg.DagsterInstance, job: str, key: dg.AssetKey, now: datetime, location: str | None = None
) -> str | None:
    """Why the sensor does not request a run of the job yet; ``None`` if no run failed, or if the pause is over.

    Counts the failures since the last successful run of the job; canceled runs do not count. Only runs of the code
    location ``location`` count; ``None`` means all. The pause ends if the asset was written after the newest failure,
    by any job or without one. Clocks cannot make the pause last: a failure further in the future than its pause does
    not block, and a write in the future does not end a pause.
    """
    failures = _failures(instance, job, location)
    if not failures or written_since(instance, failures[0], [key], now):
        return None
    pause = pause_after(len(failures))
    due_at = find_end(failures[0]) + pause
    if not now < due_at <= now + 2 * pause:
        return None
    run = failures[0].dagster_run
    at_least = "at least " if len(failures) == _COUNTED_FAILURES else ""
    repetition = f", {at_least}{len(failures)} times in a row" if failures[1:] else ""
    return (
        f"Run {run.run_id[:8]} of {job} failed{repetition}. The sensor requests it again at {due_at:%H:%M:%S} UTC."
        " See the error of the run. A run that you start yourself begins at once."
    )


def keys_behind(
    instance: dg.DagsterInstance, job: str, keys: Sequence[dg.AssetKey], now: datetime, location: str | None = None
) -> list[dg.AssetKey]:
    """The assets that a run has to write because the newest one of the job failed, or ended with a stop; or none.

    ``keys`` begin with the merged table and its rejected records. If the table was written since that run
    started, that run or another one has merged, and only the derived tables are behind that were not written since it
    ended. Only runs of the code location ``location`` count; ``None`` means all.
    """
    statuses = (*_STATUSES, dg.DagsterRunStatus.CANCELED)
    records = read_finished_runs(instance, job, _COUNTED_FAILURES, location, statuses)
    newest = next((record for record in records if not _is_canceled_by_person(record.dagster_run)), None)
    if newest is None or newest.dagster_run.status is dg.DagsterRunStatus.SUCCESS:
        return []
    if written_since(instance, newest, keys, now):
        return []
    if newest.start_time is None or not _is_written_after(instance, keys[0], newest.start_time, now):
        return list(keys)
    return [key for key in keys[2:] if not written_since(instance, newest, [key], now)]


def _is_canceled_by_person(run: dg.DagsterRun) -> bool:
    return run.status is dg.DagsterRunStatus.CANCELED and STOPPED_TAG not in run.tags


def _failures(instance: dg.DagsterInstance, job: str, location: str | None) -> Sequence[dg.RunRecord]:
    """The failed runs of a job since the last success, newest first, at most ``_COUNTED_FAILURES``."""
    records = read_finished_runs(instance, job, _COUNTED_FAILURES, location)
    return list(takewhile(lambda record: record.dagster_run.status is dg.DagsterRunStatus.FAILURE, records))


def written_since(
    instance: dg.DagsterInstance, failed_run: dg.RunRecord, keys: Iterable[dg.AssetKey], now: datetime
) -> bool:
    """Whether all assets were written after a run ended, as a run or the sensor reported.

    A time after ``now`` does not count: it comes from a wrong clock.
    """
    ended_at = find_end(failed_run).timestamp()
    return all(_is_written_after(instance, key, ended_at, now) for key in keys)


def _is_written_after(instance: dg.DagsterInstance, key: dg.AssetKey, time: float, now: datetime) -> bool:
    event = instance.get_latest_materialization_event(key)
    return event is not None and time < _written_at(event) <= now.timestamp()


def _written_at(event: dg.EventLogEntry) -> float:
    committed_at = event.asset_materialization.metadata.get(COMMITTED_AT) if event.asset_materialization else None
    return committed_at.value if isinstance(committed_at, dg.TimestampMetadataValue) else event.timestamp


def find_end(record: dg.RunRecord) -> datetime:
    """When a run ended; for a run that never started, when its record was last updated."""
    return datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp


@dataclass(frozen=True)
class Completion:
    """One finished run of a job, or one evaluation of a check.

    ``id`` identifies it among those of its subject, ``at`` is when it ended. ``run_id`` is ``None`` if no run is behind
    it. ``detail`` is the description of a check; ``read_error`` reads the error of a run.
    """

    id: int
    is_failure: bool
    at: datetime
    run_id: str | None
    severity: str = "ERROR"
    detail: str = ""


@dataclass(frozen=True)
class Subject:
    """A job or a check, and its newest completions, newest first (at least one)."""

    name: str
    kind: Literal["run", "check"]
    completions: Sequence[Completion]

    @property
    def is_failing(self) -> bool:
        """Whether the newest completion is a failure."""
        return self.completions[0].is_failure

    @property
    def failure_ids(self) -> list[int]:
        """The ids of all failures."""
        return [completion.id for completion in self.completions if completion.is_failure]

    def streak(self, failure: Completion) -> list[Completion]:
        """Return a failure and those directly before it, newest first."""
        return list(takewhile(lambda c: c.is_failure, self.completions[self.completions.index(failure) :]))


def read_runs(
    instance: dg.DagsterInstance, entry: CatalogEntry, asset_keys: Iterable[dg.AssetKey], location: str | None
) -> Iterator[Subject]:
    """Read the finished runs of the jobs of a table, and those of its assets without a job; canceled runs do not count.

    A failed run is over if a later run succeeds, or if all assets that it was to write were written since. Only runs of
    the code location ``location`` count; ``None`` means all.
    """
    job_keys = {entry.merge_job: entry.merge_job_keys, entry.maintain_job: [], entry.verify_job: []}
    for job, keys in job_keys.items():
        yield from _run_subject(instance, job, read_finished_runs(instance, job, _LIMIT, location), keys)
    own_keys = set(asset_keys)
    selections: dict[frozenset[dg.AssetKey], list[dg.RunRecord]] = {}
    for record in read_finished_runs(instance, _BUTTON_JOB, _BUTTON_LIMIT, location):
        selections.setdefault(frozenset(own_keys & _selected_keys(record)), []).append(record)
    for selected, records in selections.items():
        names = ", ".join(sorted(key.to_user_string() for key in selected))
        if selected:
            yield from _run_subject(instance, f"{BUTTON_RUNS} of {names}", records[:_LIMIT], selected)


def _selected_keys(record: dg.RunRecord) -> Set[dg.AssetKey]:
    return record.dagster_run.asset_selection or frozenset()


def _run_subject(
    instance: dg.DagsterInstance, name: str, records: Sequence[dg.RunRecord], keys: Collection[dg.AssetKey]
) -> Iterator[Subject]:
    """The runs of a job that writes these assets; nothing if no run is finished."""
    completions = [_run_completion(record) for record in records]
    now = datetime.now(UTC)
    if completions and completions[0].is_failure and keys and written_since(instance, records[0], keys, now):
        completions.insert(0, Completion(id=0, is_failure=False, at=now, run_id=None))
    if completions:
        yield Subject(name, "run", completions)


def _run_completion(record: dg.RunRecord) -> Completion:
    run = record.dagster_run
    return Completion(record.storage_id, run.status is _FAILURE, find_end(record), run.run_id)


def read_error(instance: dg.DagsterInstance, run_id: str) -> str:
    """Read why a run failed; empty if Dagster stores no reason."""
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.RUN_FAILURE):
        event = entry.dagster_event
        data = event.job_failure_data if event and event.event_specific_data else None
        step = data.first_step_failure_event if data else None
        failure = step.step_failure_data if step else None
        if failure and failure.user_failure_data and failure.user_failure_data.description:
            return failure.user_failure_data.description
        error = failure.error if failure else data.error if data else None
        if error:
            return (error.cause or error).message
        return event.message or "" if event else ""
    return ""
