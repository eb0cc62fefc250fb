"""Runs that ended without a report, or that a stop of ``up`` interrupted: they would never finish, or look failed.

A run whose process was killed has failed. ``up`` notes when a person stops it. What ended then is canceled at the next
start: nobody is alerted, no sensor pauses, and what is left of a merge is requested at once.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from dagster._core.events import RunFailureReason
from dagster._core.storage.tags import GRPC_INFO_TAG, RUN_FAILURE_REASON_TAG

_FINISHED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _FINISHED]
STOPPED_TAG = "lakehouse/stopped"
"""The tag of the runs that ended when ``up`` was stopped."""
_CLOCK_CORRECTION = 10.0  # seconds by which the clock may be corrected while a run starts
_START_TIME_FIELD = 19  # index of a process's start time in /proc/PID/stat, counted after its name
_STOP_SECONDS = 60.0  # more than a stop takes
_CONNECT_SECONDS = 1.0
# Dagster takes a run that a signal interrupts for a failure, unless a person canceled it before
_INTERRUPTION = {RUN_FAILURE_REASON_TAG: RunFailureReason.UNEXPECTED_TERMINATION.value}


def prepare_storage(stopped_at: float | None = None) -> None:
    """Create or migrate the tables of Dagster's storage, and cancel the runs that ended with a stop at this time.

    Call it before the daemon starts: its monitor would report a run that never started as failed. A second call changes
    nothing. In a storage that other machines may share, no run is canceled: their processes cannot be seen from here.
    """
    from dagster._core.storage.runs import SqliteRunStorage  # noqa: PLC0415 - it imports a database library

    with dg.DagsterInstance.get() as instance:
        instance.upgrade()
        if stopped_at is None or not isinstance(instance.run_storage, SqliteRunStorage):
            return
        for run in _stopped_runs(instance, stopped_at):
            instance.add_run_tags(run.run_id, {STOPPED_TAG: "true"})
            instance.report_run_canceled(run, "Dagster was stopped, and this run with it.")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _stopped_runs(instance: dg.DagsterInstance, stopped_at: float) -> Iterator[dg.DagsterRun]:
    """The runs that a stop ended: none of their processes is left. Queued runs wait for the next daemon."""
    end = datetime.fromtimestamp(stopped_at + _STOP_SECONDS, UTC)
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED, created_before=end)):
        pid, reported_at = _process_of(instance, run)
        is_running = pid is not None and _is_alive(pid, reported_at)
        if run.status is not dg.DagsterRunStatus.QUEUED and not is_running and _is_server_gone(run):
            yield run
    failed_filter = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], tags=_INTERRUPTION, created_before=end)
    for record in instance.get_run_records(failed_filter):
        if 0 <= (record.end_time or 0) - stopped_at <= _STOP_SECONDS and _is_server_gone(record.dagster_run):
            yield record.dagster_run


def _is_server_gone(run: dg.DagsterRun) -> bool:
    """Whether the code server of this machine that started a run is gone, or no server was asked to start it yet."""
    if run.status is dg.DagsterRunStatus.NOT_STARTED:
        return True
    try:
        address = json.loads(run.tags.get(GRPC_INFO_TAG, "")).get("socket")
    except (AttributeError, ValueError):
        return False
    if not isinstance(address, str):
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_CONNECT_SECONDS)
        try:
            connection.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
    return False


def fail_if_dead(instance: dg.DagsterInstance, run: dg.DagsterRun, location: str | None) -> bool:
    """Report a run as failed if its process is dead; returns whether it is."""
    if location is not None and run_location(run) not in (None, location):
        return False
    pid, reported_at = _process_of(instance, run)
    if run.status is not dg.DagsterRunStatus.STARTED or pid is None or _is_alive(pid, reported_at):
        return False
    instance.report_run_failed(run, f"Process {pid} of this run ended without reporting a result.")
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return True


def run_location(run: dg.DagsterRun) -> str | None:
    """The code location of a run; ``None`` if Dagster stored none, as for ``dagster job execute``."""
    return run.remote_job_origin.repository_origin.get_label() if run.remote_job_origin else None


def _process_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[int | None, float]:
    """The process id of a run and when it was reported; ``None`` if it is unknown or on another machine."""
    is_local = isinstance(instance.run_launcher, dg.DefaultRunLauncher)
    if not is_local:
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
