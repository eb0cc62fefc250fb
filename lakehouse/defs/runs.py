"""Which runs write an asset, and which of them have not ended."""

import os
import time
from contextlib import suppress
from pathlib import Path

import dagster as dg

_FINISHED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
_SET_RIGHT = 10.0  # seconds by which a clock may be set right while a run begins
_BEGAN = 19  # place of the time of its beginning in what Linux tells of a process, behind its name
_UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]


def unfinished_run(instance: dg.DagsterInstance, key: dg.AssetKey) -> dg.DagsterRun | None:
    """Return a run that has not ended and writes the asset, or ``None``.

    A run whose process died together with Dagster itself would stay unfinished for ever: it is reported
    as failed and does not count.
    """
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=_UNFINISHED))
    writing = (run for run in runs if _writes(instance, run, key))
    return next((run for run in writing if not _ended_unseen(instance, run)), None)


def _writes(instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey) -> bool:
    """Whether the steps of a run write the asset, whatever job or button it came from."""
    if run.execution_plan_snapshot_id is None:
        return key in (run.asset_selection or ())
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    steps = [step for step in plan.steps if step.key in plan.step_keys_to_execute]
    return any(output.entity_key == key for step in steps for output in step.outputs)


def _ended_unseen(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    process, noted = _process_of(instance, run)
    if process is None or _is_alive(process, noted):
        return False
    instance.report_run_failed(run, f"Process {process} of this run ended without saying how.")
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return True


def _process_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[int | None, float]:
    """The process of a started run on this machine, and when it said so; ``None``: on another one, or not known."""
    here = isinstance(instance.run_launcher, dg.DefaultRunLauncher)
    if not here or run.status is not dg.DagsterRunStatus.STARTED:
        return None, 0.0
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        event = entry.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event else None
        if pid is not None:
            return int(str(pid.value)), entry.timestamp
    return None, 0.0


def _is_alive(process: int, noted: float) -> bool:
    """Whether a process lives that was there at that time: its number may be another's by now."""
    with suppress(PermissionError):  # another user's
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    age = _age(process)
    return age is None or time.time() - age <= noted + _SET_RIGHT


def _age(process: int) -> float | None:
    """For how many seconds a process has lived; ``None`` where the system does not tell."""
    try:
        began = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        up = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
    except OSError:
        return None
    return up - int(began[_BEGAN]) / os.sysconf("SC_CLK_TCK")
