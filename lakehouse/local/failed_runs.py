"""Which runs of Dagster failed, read from its storage in the home: Dagster itself takes seconds to load."""

import re
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_PATIENCE = 1.0  # seconds for a storage that another process has locked
_DAY = 24 * 3600.0
_IN_WAL_MODE = b"\2"  # the byte of its header by which SQLite knows it
_ELSEWHERE = re.compile(r"^(storage|run_storage|instance_class)\s*:", re.MULTILINE)
_UNDECLARED = "__"  # how Dagster's names of jobs begin that nobody declared, such as that of chosen assets
_MOST = 100  # failed runs, the newest ones: each is compared with the later runs of its job
# The plus keeps SQLite from the index of the status, by which it would read every success there ever was.
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
    """A run that failed, and after which no run of its job succeeded."""

    run: str
    job: str
    ended: datetime

    def __str__(self) -> str:
        """As a person reads it."""
        declared = self.job and not self.job.startswith(_UNDECLARED)
        job = self.job if declared else "A run of assets without a declared job"
        return f"{job} failed at {self.ended:%Y-%m-%d %H:%M} UTC"


def failed_runs(folder: Path) -> list[FailedRun] | None:
    """The newest failed runs of the last day in this folder of Dagster's, without those before a success of their job.

    A run of assets without a declared job is always among them: a success of other assets says nothing of these.
    Empty if Dagster has no storage yet; ``None`` if its runs are in another storage. Nothing is made or written.
    ``sqlite3.Error`` if the storage is locked, or has other tables than Dagster's today.
    """
    settings, storage = folder / "dagster.yaml", folder / "history" / "runs.db"
    if settings.exists() and _ELSEWHERE.search(settings.read_text(encoding="utf-8", errors="replace")):
        return None
    if not storage.exists():
        return []
    now = time.time()
    with closing(sqlite3.connect(_address(storage), uri=True, timeout=_PATIENCE)) as runs:
        found = runs.execute(_QUERY, [now - _DAY, now + _DAY, _MOST])
        return [FailedRun(run, job, datetime.fromtimestamp(ended, UTC)) for run, job, ended in found]


def _address(storage: Path) -> str:
    """How to open a storage so that SQLite makes no file beside it, which its owner could not write afterwards."""
    with storage.open("rb") as file:
        in_wal_mode = file.read(19)[18:] == _IN_WAL_MODE
    unused = in_wal_mode and not storage.with_name(f"{storage.name}-wal").exists()
    return f"{storage.absolute().as_uri()}?mode=ro&{'immutable=1' if unused else 'readonly_shm=1'}"
