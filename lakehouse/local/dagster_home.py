"""Dagster on one machine: the folder of its state, a run in a process of its own, and the runs that failed."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

from lakehouse.errors import LakehouseError, SettingsError, SetupError
from lakehouse.local.process import hold_lock
from lakehouse.settings import Settings
from lakehouse.settings.project import project_folder

_STORAGE_SECONDS = 120.0
_DAGSTER_YAML = """\
# Written once by lakehouse. You can change it; delete the file to get the original back.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  pools:
    # one writer per table; per step, so that it applies to every run that shares this folder
    default_limit: 1
    granularity: op
  runs:
    # each run may start its own Java process
    max_concurrent_runs: 2
run_coordinator:
  module: dagster.core.run_coordinator
  class: QueuedRunCoordinator
  config:
    # seconds between two checks of the queue of runs
    dequeue_interval_seconds: 1
retention:
  # days for which the daemon keeps the ticks of sensors and schedules; by default it keeps most of them forever
  sensor:
    purge_after_days: {skipped: 7, failure: 30, success: 30}
  schedule:
    purge_after_days: {skipped: 30, failure: 30, success: 30}
run_monitoring:
  enabled: true
  # the only way to detect a run that ended with the stack before its process started
  start_timeout_seconds: 90
  poll_interval_seconds: 30
  # without this, a killed run would keep its table locked
  free_slots_after_run_end_seconds: 30
"""
_FINISHED_STEP = re.compile(r'STEP_SUCCESS - Finished execution of step "(\w+)" in ([^"]+?)\.?$')
_CAUSE = re.compile(r"\b[a-z_]+\.[\w.]*(?:Error|Failure|Exception): (.+)")
_PATIENCE = 1.0  # seconds to wait for a storage that another process has locked
_DAY_SECONDS = 24 * 3600.0
_WAL_MODE = b"\2"  # the byte of SQLite's header that marks WAL mode
_OTHER_STORAGE = re.compile(r"^(storage|run_storage|instance_class)\s*:", re.MULTILINE)
_IMPLICIT_JOB_PREFIX = "__"  # Dagster's own jobs, for example the one that materializes selected assets
_MAX_RUNS = 100  # the newest failed runs; each is compared with the later runs of its job
# The plus stops SQLite from using the index of the status: with it, SQLite would read every successful run.
_QUERY = """
SELECT run_id, COALESCE(pipeline_name, '') AS job,
COALESCE(end_time, strftime('%s', update_timestamp)) + 0.0 AS ended FROM runs
WHERE status = 'FAILURE' AND ended BETWEEN ? AND ? AND run_id IS NOT NULL
AND (job = '' OR job GLOB '__*' OR NOT EXISTS (
    SELECT 1 FROM runs AS later WHERE later.pipeline_name = runs.pipeline_name AND later.id > runs.id
    AND +later.status = 'SUCCESS'
)) ORDER BY id DESC LIMIT ?
"""


def dagster_folder(settings: Settings) -> Path:
    """Dagster's folder, which may not exist yet: ``DAGSTER_HOME``, else the one in the home.

    Raises ``SettingsError`` if ``DAGSTER_HOME`` names an unknown user, or its links form a circle.
    """
    dagster_home = os.environ.get("DAGSTER_HOME")
    try:
        return Path(dagster_home).expanduser().resolve() if dagster_home else settings.home_folder / "dagster"
    except RuntimeError as error:
        raise _folder_error(str(dagster_home), str(error)) from None


def prepare_dagster_home(settings: Settings) -> Path:
    """Return Dagster's folder; create it and its ``dagster.yaml`` if they are missing.

    ``DAGSTER_HOME``, Dagster's own variable, has priority over the folder in the home. A second call changes nothing:
    an existing ``dagster.yaml`` stays as it is.
    """
    dagster_home = os.environ.get("DAGSTER_HOME")
    folder = _make_folder(dagster_folder(settings)) if dagster_home else settings.make_folder("dagster")
    file = folder / "dagster.yaml"
    if not file.exists():
        # atomic: another process that starts now must not read half of the file
        temporary_file = folder / f"dagster.yaml.{uuid4().hex}"
        temporary_file.write_text(_DAGSTER_YAML, encoding="utf-8")
        temporary_file.replace(file)
    return folder


def note_stop(settings: Settings) -> None:
    """Note that the daemon is being stopped: what it runs has not failed."""
    with suppress(OSError):
        _stop_note(settings).touch()


def _stop_note(settings: Settings) -> Path:
    return dagster_folder(settings) / "stopped"


def start_dagster_storage(settings: Settings) -> None:
    """Do as ``migrate_dagster_storage``, before the daemon starts; cancels the runs that ended when it was stopped."""
    note = _stop_note(settings)
    migrate_dagster_storage(settings, note.stat().st_mtime if note.exists() else None)
    note.unlink(missing_ok=True)


def migrate_dagster_storage(settings: Settings, stopped_at: float | None = None) -> None:
    """Create the tables of Dagster's storage, or migrate them; cancel the runs that a stop at this time ended.

    Call this before starting Dagster's processes: each creates missing tables, and fails if two do so at once. A
    second call changes nothing. Raises ``SetupError`` if the storage in ``dagster.yaml`` cannot be opened.
    """
    folder = prepare_dagster_home(settings)
    code = f"from lakehouse.defs import ended_runs; ended_runs.prepare_storage({stopped_at})"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "DAGSTER_HOME": str(folder)}
    action = f"Correct {folder / 'dagster.yaml'}, then start again."
    with hold_lock(folder / "storage.lock", 2 * _STORAGE_SECONDS):
        # its output contains Dagster's settings: only its errors are stored
        try:
            migration = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=_STORAGE_SECONDS
            )
        except subprocess.TimeoutExpired:
            message = f"Dagster's storage does not answer within {_STORAGE_SECONDS:.0f} seconds"
            raise SetupError(message, where=str(folder), action=action) from None
    if migration.returncode:
        log = settings.log_file("dagster-storage.log")
        log.write_text(migration.stderr, encoding="utf-8")
        message = "Dagster's storage cannot be opened; this file has its error"
        raise SetupError(message, where=str(log), action=action)


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _folder_error(str(folder), str(error.strerror)) from None
    return folder


def _folder_error(folder: str, cause: str) -> SettingsError:
    message = f"The folder in DAGSTER_HOME cannot be used: {cause}"
    return SettingsError(message, where=folder, action="Correct it, or unset DAGSTER_HOME.")


def materialize(
    settings: Settings, assets: Sequence[str], config: Mapping[str, Any], on_step: Callable[[str, str], None]
) -> None:
    """Materialize the assets in one run, in a new process, and wait for its end.

    ``config`` maps an asset to its run configuration. ``on_step`` gets the name and the duration of each finished
    step. Raises ``LakehouseError`` if the run fails. Call ``migrate_dagster_storage`` first.
    """
    run_config = {"ops": {name: {"config": values} for name, values in config.items()}}
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "lakehouse.definitions"]
    command += ["--select", ",".join(assets), "--config-json", json.dumps(run_config)]
    log = settings.log_file("runs.log")
    environment = {**os.environ, "DAGSTER_HOME": str(prepare_dagster_home(settings))}
    with (
        log.open("a", encoding="utf-8") as log_file,
        subprocess.Popen(
            command,
            cwd=project_folder(),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        try:
            cause = _read_output(process.stdout or (), log_file, on_step)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        message = f"The Dagster run failed: {cause or 'it reported no cause'}"
        raise LakehouseError(
            message, where=str(log), action="Read the end of that log. Then run the same command again."
        )


def _read_output(lines: Iterable[str], log: TextIO, on_step: Callable[[str, str], None]) -> str:
    """Copy every line to the log, call ``on_step`` for each finished step, and return the last error's text."""
    cause = ""
    for line in lines:
        log.write(line)
        step, error = _FINISHED_STEP.search(line), _CAUSE.search(line)
        if step:
            on_step(step[1], step[2])
        cause = error[1].strip() if error else cause
    return cause


@dataclass(frozen=True)
class FailedRun:
    """A failed run, after which no run of its job succeeded."""

    run: str
    job: str
    ended_at: datetime

    def __str__(self) -> str:
        """The run in one sentence."""
        is_declared = self.job and not self.job.startswith(_IMPLICIT_JOB_PREFIX)
        job = self.job if is_declared else "A run of assets without a declared job"
        return f"{job} failed at {self.ended_at:%Y-%m-%d %H:%M} UTC"


def failed_runs(folder: Path) -> list[FailedRun] | None:
    """Return the newest failed runs of the last day, except those whose job has succeeded since.

    ``folder`` is Dagster's folder. A failed run of assets without a declared job is always included: a success of
    other assets does not repair it. The result is empty if Dagster has no storage yet, and ``None`` if its runs are in
    another storage. Nothing is created or written. Raises ``sqlite3.Error`` if the storage is locked, or has other
    tables than those of the installed Dagster.
    """
    settings, storage = folder / "dagster.yaml", folder / "history" / "runs.db"
    if settings.exists() and _OTHER_STORAGE.search(settings.read_text(encoding="utf-8", errors="replace")):
        return None
    if not storage.exists():
        return []
    now = time.time()
    with closing(sqlite3.connect(_storage_uri(storage), uri=True, timeout=_PATIENCE)) as connection:
        rows = connection.execute(_QUERY, [now - _DAY_SECONDS, now + _DAY_SECONDS, _MAX_RUNS])
        return [FailedRun(run, job, datetime.fromtimestamp(end_time, UTC)) for run, job, end_time in rows]


def _storage_uri(storage: Path) -> str:
    """The URI that opens a storage without new files next to it: its owner might not be able to write those."""
    with storage.open("rb") as file:
        is_in_wal_mode = file.read(19)[18:] == _WAL_MODE
    is_unused = is_in_wal_mode and not storage.with_name(f"{storage.name}-wal").exists()
    return f"{storage.absolute().as_uri()}?mode=ro&{'immutable=1' if is_unused else 'readonly_shm=1'}"
