"""Which runs of Dagster failed, as its storage in the home tells, without Dagster, which takes seconds to load."""

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

_PATIENCE = 1.0  # seconds for a storage that another process has locked
_LOOKED_AT = 500  # runs that ended last: of a table that is merged without a pause, those of about an hour
_RECENT = timedelta(days=7)
_ELSEWHERE = re.compile(r"^(storage|run_storage|instance_class)\s*:", re.MULTILINE)
_AD_HOC = "__"  # how Dagster's names of jobs begin that nobody declared; what they ran over tells them apart
_QUERY = """
SELECT run_id, pipeline_name, status, COALESCE(end_time, strftime('%s', update_timestamp)),
       json_extract(run_body, '$.step_keys_to_execute')
FROM runs WHERE status IN ('FAILURE', 'SUCCESS') ORDER BY id DESC LIMIT ?
"""


@dataclass(frozen=True)
class FailedRun:
    """The newest failed run of a job that has not succeeded since, and how many of its runs have failed since then."""

    run: str
    job: str
    ended: datetime
    often: int = 1

    def __str__(self) -> str:
        """As a person reads it."""
        often = f", {self.often} times since it succeeded" if self.often > 1 else ""
        return f"{self.job} failed at {self.ended:%Y-%m-%d %H:%M} UTC{often}"


def failed_runs(folder: Path) -> list[FailedRun] | None:
    """The failed runs in this folder of Dagster's, newest first, one for each job; those of the last week.

    Empty where Dagster has no storage yet; ``None`` where its runs are in another storage. Nothing is made or written.
    ``sqlite3.Error`` where the storage is locked, or not one of those that are known here.
    """
    settings, storage = folder / "dagster.yaml", folder / "history" / "runs.db"
    if settings.exists() and _ELSEWHERE.search(settings.read_text(encoding="utf-8", errors="replace")):
        return None
    if not storage.exists():
        return []
    with closing(sqlite3.connect(f"{storage.absolute().as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)) as runs:
        ended = runs.execute(_QUERY, [_LOOKED_AT]).fetchall()
    since = datetime.now(UTC) - _RECENT
    return [failed for failed in _without_success(ended) if failed.ended > since]


def _without_success(ended: Iterable[tuple[str, str, str, float | str, str | None]]) -> list[FailedRun]:
    """Of runs that ended, newest first, those that failed behind the last success of their job."""
    failed: dict[tuple[str, str | None], FailedRun] = {}
    succeeded = set()
    for run, job, status, moment, steps in ended:
        key = (job, steps if job.startswith(_AD_HOC) else None)
        if status == "SUCCESS":
            succeeded.add(key)
        elif key in failed and key not in succeeded:
            failed[key] = replace(failed[key], often=failed[key].often + 1)
        elif key not in succeeded:
            failed[key] = FailedRun(run, job, datetime.fromtimestamp(float(moment), UTC))
    return list(failed.values())
