"""Runs that ended without a report, since their process was killed or Dagster ended: they would never finish.

A run whose process alone is gone has failed. If its code server is gone too, then Dagster ended, as by Ctrl-C, and took
the run with it: it is canceled, so nobody is alerted and its sensor requests it again at once.
"""

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import dagster as dg
from dagster._core.events import RunFailureReason
from dagster._core.storage.tags import GRPC_INFO_TAG, RUN_FAILURE_REASON_TAG

_FINISHED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]
_CLOCK_CORRECTION = 10.0  # seconds by which the clock may be corrected while a run starts
_START_TIME_FIELD = 19  # index of a process's start time in /proc/PID/stat, counted after its name
# Dagster takes a run that a signal interrupts for a failure, unless a person canceled it before
_INTERRUPTED = dg.RunsFilter(
    statuses=[dg.DagsterRunStatus.FAILURE],
    tags={RUN_FAILURE_REASON_TAG: RunFailureReason.UNEXPECTED_TERMINATION.value},
)
_WITHOUT_PROCESS = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING)  # perhaps
_WITH_DAGSTER = "Dagster ended, and this run with it. The next run reads the same records."


def prepare_storage() -> None:
    """Create or migrate the tables of Dagster's storage, and cancel the runs that ended with the Dagster before.

    Call it before Dagster's processes start: its monitor would report a run that never started as failed, and sensors
    would pause after one that was interrupted. A second call changes nothing.
    """
    with dg.DagsterInstance.get() as instance:
        instance.upgrade()
        for run in instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED)):
            # a run that is about to be queued, by a webserver that runs already, is queued all the same
            if run.status is dg.DagsterRunStatus.NOT_STARTED:
                _cancel(instance, run)
            elif _is_server_gone(run):
                report_if_ended(instance, run, None)
        for run in instance.get_runs(filters=_INTERRUPTED):
            if _is_server_gone(run):
                _cancel(instance, run)


def report_if_ended(instance: dg.DagsterInstance, run: dg.DagsterRun, location: str | None) -> bool:
    """Report a run whose process is gone; returns whether it is. Runs of other code locations are not judged."""
    if location is not None and run_location(run) not in (None, location):
        return False
    pid, reported_at = _process_of(instance, run)
    is_server_gone = _is_server_gone(run)
    if pid is None and not (is_server_gone and run.status in _WITHOUT_PROCESS):
        return False
    if pid is not None and _is_alive(pid, reported_at):
        return False
    if is_server_gone:
        _cancel(instance, run)
    else:
        instance.report_run_failed(run, f"Process {pid} of this run ended without reporting a result.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return True


def _cancel(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    instance.report_run_canceled(run, _WITH_DAGSTER)
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _is_server_gone(run: dg.DagsterRun) -> bool:
    """Whether the code server of this machine that started a run, or was to start it, is gone."""
    try:
        address = json.loads(run.tags.get(GRPC_INFO_TAG, "")).get("socket")
    except (AttributeError, ValueError):
        return False
    if address is None:
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:  # as for a queue of connections that is full
            return False
    return False


def run_location(run: dg.DagsterRun) -> str | None:
    """The code location of a run; ``None`` if Dagster stored none, as for ``dagster job execute``."""
    return run.remote_job_origin.repository_origin.get_label() if run.remote_job_origin else None


def _process_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[int | None, float]:
    """The process id of a started run and when it was reported; ``None`` if it is unknown or on another machine."""
    is_local = isinstance(instance.run_launcher, dg.DefaultRunLauncher)
    if not is_local or run.status not in (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING):
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
