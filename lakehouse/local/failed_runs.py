"""The failed Dagster runs, read directly from its storage: Dagster itself takes seconds to load."""

import re
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

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
