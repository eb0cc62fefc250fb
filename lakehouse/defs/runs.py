"""Which unfinished runs write an asset."""

import os
import time
from contextlib import suppress
from pathlib import Path

import dagster as dg

from lakehouse.defs.catalog_entries import step_name
from lakehouse.defs.finished_runs import run_location

_FINISHED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
_CLOCK_CORRECTION = 10.0  # seconds by which the clock may be corrected while a run starts
_START_TIME_FIELD = 19  # index of a process's start time in /proc/PID/stat, counted after its name
_UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]


def unfinished_run(
    instance: dg.DagsterInstance, key: dg.AssetKey, location: str | None, job: str | None = None
) -> dg.DagsterRun | None:
    """Return an unfinished run that writes the asset, or that is a run of the job; ``None`` if there is none.

    A run whose process died together with Dagster would stay unfinished forever. This function reports such a run as
    failed and ignores it. It judges only runs of the code location ``location``, and those without one: the process of
    another location may be in another container. ``None`` means all.
    """
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=_UNFINISHED))
    writers = (run for run in runs if run.job_name == job or _writes(instance, run, key))
    return next((run for run in writers if not _fail_if_dead(instance, run, location)), None)


def unfinished_run_of_job(instance: dg.DagsterInstance, job: str, location: str | None) -> dg.DagsterRun | None:
    """Return an unfinished run of the job; ``None`` if there is none. A run whose process died is reported as failed.

    Unlike ``unfinished_run``, it ignores runs of other jobs that write the same tables.
    """
    runs = instance.get_runs(filters=dg.RunsFilter(job_name=job, statuses=_UNFINISHED))
    return next((run for run in runs if not _fail_if_dead(instance, run, location)), None)


def _writes(instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey) -> bool:
    """Whether the steps of a run write the asset, independent of the job or button that started it."""
    if run.execution_plan_snapshot_id is None:
        return key in (run.asset_selection or ())
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    steps = [step for step in plan.steps if step.key in plan.step_keys_to_execute]
    # a step that writes several assets has no output for those that the run did not select
    return any(step.key == step_name(key) or any(out.entity_key == key for out in step.outputs) for step in steps)


def _fail_if_dead(instance: dg.DagsterInstance, run: dg.DagsterRun, location: str | None) -> bool:
    """Report a run as failed if its process is dead; returns whether it is."""
    if location is not None and run_location(run) not in (None, location):
        return False
    pid, reported_at = _process_of(instance, run)
    if pid is None or _is_alive(pid, reported_at):
        return False
    instance.report_run_failed(run, f"Process {pid} of this run ended without reporting a result.")
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return True


def _process_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[int | None, float]:
    """The process id of a started run and when it was reported; ``None`` if it is unknown or on another machine."""
    is_local = isinstance(instance.run_launcher, dg.DefaultRunLauncher)
    if not is_local or run.status is not dg.DagsterRunStatus.STARTED:
        return None, 0.0
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        event = entry.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event else None
        if pid is not None:
            return int(str(pid.value)), entry.timestamp
    return None, 0.0


def _is_alive(pid: int, reported_at: float) -> bool:
    """Whether the process that was reported at this time is alive. A newer process may have the same id."""
    with suppress(PermissionError):  # the process of another user
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    age = _age(pid)
    return age is None or time.time() - age <= reported_at + _CLOCK_CORRECTION


def _age(pid: int) -> float | None:
    """The age of a process in seconds; ``None`` if the system does not report it."""
    try:
        stat_fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
    except OSError:
        return None
    return uptime - int(stat_fields[_START_TIME_FIELD]) / os.sysconf("SC_CLK_TCK")
