"""Dagster's own state: its folder, and settings that fit one machine."""

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from lakehouse.errors import SettingsError, SetupError
from lakehouse.local.locks import held_lock
from lakehouse.settings import Settings

_STORAGE_SECONDS = 120.0
_DAGSTER_YAML = """\
# Written once by lakehouse and yours to change; delete the file to get it back.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  pools:
    # one writer for each table; by step, so that it holds for every run that shares this folder
    default_limit: 1
    granularity: op
  runs:
    # each run may start a Java process of its own
    max_concurrent_runs: 2
run_coordinator:
  module: dagster.core.run_coordinator
  class: QueuedRunCoordinator
  config:
    # seconds that a run waits at most before it is looked at
    dequeue_interval_seconds: 1
retention:
  # days for which the daemon keeps what became of each look of a sensor; by itself it keeps most for ever
  sensor:
    purge_after_days: {skipped: 7, failure: 30, success: 30}
  schedule:
    purge_after_days: {skipped: 30, failure: 30, success: 30}
run_monitoring:
  enabled: true
  # a run that went with the stack before its process had begun is known by nothing else
  start_timeout_seconds: 90
  poll_interval_seconds: 30
  # a run that was killed would otherwise keep its table locked
  free_slots_after_run_end_seconds: 30
"""


def dagster_folder(settings: Settings) -> Path:
    """Dagster's folder, which need not exist yet: that of ``DAGSTER_HOME``, else the one in the home.

    Raises ``SettingsError`` where ``DAGSTER_HOME`` leads nowhere: a user that is not known, or links in a circle.
    """
    chosen = os.environ.get("DAGSTER_HOME")
    try:
        return Path(chosen).expanduser().resolve() if chosen else settings.home_folder / "dagster"
    except RuntimeError as error:
        raise _unusable(str(chosen), str(error)) from None


def prepare_dagster_home(settings: Settings) -> Path:
    """Return Dagster's folder, made and given a ``dagster.yaml`` where it has none.

    ``DAGSTER_HOME``, Dagster's own variable, wins; unset, it is a folder in the home. A second call
    changes nothing, whatever stands in the file by then.
    """
    chosen = os.environ.get("DAGSTER_HOME")
    folder = _made(dagster_folder(settings)) if chosen else settings.make_folder("dagster")
    file = folder / "dagster.yaml"
    if not file.exists():
        # whole from its first moment: a process that starts now must not read half of it
        written = folder / f"dagster.yaml.{uuid4().hex}"
        written.write_text(_DAGSTER_YAML, encoding="utf-8")
        written.replace(file)
    return folder


def migrate_dagster_storage(settings: Settings) -> None:
    """Make the tables of Dagster's storage, or bring them to the installed version.

    Each of Dagster's processes makes them where they are missing, and fails where another one does so at
    the same time: this goes before them. A second call changes nothing. Raises ``SetupError`` where the
    storage that ``dagster.yaml`` names cannot be opened.
    """
    folder = prepare_dagster_home(settings)
    command = [sys.executable, "-m", "dagster", "instance", "migrate"]
    environment = {**os.environ, "DAGSTER_HOME": str(folder)}
    action = f"Correct {folder / 'dagster.yaml'}, then start again."
    with held_lock(folder / "storage.lock", 2 * _STORAGE_SECONDS):
        # what it prints holds Dagster's settings: only its errors are kept
        try:
            told = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=_STORAGE_SECONDS
            )
        except subprocess.TimeoutExpired:
            fact = f"Dagster's storage does not answer within {_STORAGE_SECONDS:.0f} seconds"
            raise SetupError(fact, where=str(folder), action=action) from None
    if told.returncode:
        log = settings.log_file("dagster-storage.log")
        log.write_text(told.stderr, encoding="utf-8")
        fact = "Dagster's storage cannot be opened; what it says is in this file"
        raise SetupError(fact, where=str(log), action=action)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(str(folder), str(error.strerror)) from None
    return folder


def _unusable(folder: str, why: str) -> SettingsError:
    fact = f"The folder in DAGSTER_HOME cannot be used: {why}"
    return SettingsError(fact, where=folder, action="Correct it, or unset DAGSTER_HOME.")
