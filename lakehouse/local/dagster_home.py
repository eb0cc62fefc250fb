"""The folder of Dagster's state, with settings for one machine."""

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from lakehouse.errors import SettingsError, SetupError
from lakehouse.local.locks import hold_lock
from lakehouse.settings import Settings

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


def migrate_dagster_storage(settings: Settings) -> None:
    """Create the tables of Dagster's storage, or migrate them to the installed version.

    Call this before starting Dagster's processes: each creates missing tables, and fails if two do so at once. A
    second call changes nothing. Raises ``SetupError`` if the storage in ``dagster.yaml`` cannot be opened.
    """
    folder = prepare_dagster_home(settings)
    command = [sys.executable, "-m", "dagster", "instance", "migrate"]
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
