"""Which runs of Dagster failed, as its storage in the home tells, without Dagster, which takes seconds to load."""

import json
import re
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_PATIENCE = 1.0  # seconds for a storage that another process has locked
_LOOKED_AT = 500  # failed runs, the newest ones
_DAY = 24 * 3600.0
_RECENT = 7 * _DAY
_IN_WAL_MODE = b"\2"  # the byte of its header by which SQLite knows it
_NAMED = 3  # assets that are told by their names
_ELSEWHERE = re.compile(r"^(storage|run_storage|instance_class)\s*:", re.MULTILINE)
_AD_HOC = "__"  # how Dagster's names of jobs begin that nobody declared; what they ran over tells them apart
# Newest first: failed runs whose job has not succeeded since, and what has succeeded since of jobs that nobody
# declared. A plus keeps SQLite from the index of the status, by which it would read every success there ever was.
_QUERY = """
WITH failed AS (
    SELECT id, run_id, pipeline_name AS job, status, run_body,
           COALESCE(end_time, strftime('%s', update_timestamp)) + 0.0 AS ended
    FROM runs WHERE status = 'FAILURE' AND ended BETWEEN ? AND ?
    AND typeof(job) = 'text' AND typeof(run_id) = 'text' AND (
        job GLOB '__*' OR NOT EXISTS (
            SELECT 1 FROM runs AS later WHERE later.pipeline_name = runs.pipeline_name AND later.id > runs.id
            AND +later.status = 'SUCCESS'
        )
    ) ORDER BY id DESC LIMIT ?
)
SELECT * FROM failed
UNION ALL
SELECT id, run_id, pipeline_name, status, run_body, NULL FROM runs WHERE +status = 'SUCCESS'
AND pipeline_name GLOB '__*' AND id > (SELECT min(id) FROM failed WHERE job GLOB '__*')
ORDER BY id DESC
"""


@dataclass(frozen=True)
class FailedRun:
    """The newest failed run of a job that has not succeeded since, and how many of its runs have failed since then.

    ``job`` names what ran: the job, or the assets of one that nobody declared.
    """

    run: str
    job: str
    ended: datetime
    often: int = 1

    def __str__(self) -> str:
        """As a person reads it."""
        often = f", {self.often} times in a row" if self.often > 1 else ""
        return f"{self.job} failed at {self.ended:%Y-%m-%d %H:%M} UTC{often}"


@dataclass(frozen=True)
class _Work:
    """What a run was for: its job, and the steps of one that nobody declared; where it has none, all there are."""

    job: str
    steps: frozenset[str]

    def covers(self, other: "_Work") -> bool:
        """Whether a success of it makes good what failed before."""
        return self == other or (self.job == other.job and bool(other.steps) and other.steps <= self.steps)


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
    now = time.time()
    with closing(sqlite3.connect(_address(storage), uri=True, timeout=_PATIENCE)) as runs:
        return _without_success(runs.execute(_QUERY, [now - _RECENT, now + _DAY, _LOOKED_AT]))


def _address(storage: Path) -> str:
    """How to open a storage so that SQLite makes no file beside it, which its owner could not write afterwards."""
    with storage.open("rb") as file:
        in_wal_mode = file.read(19)[18:] == _IN_WAL_MODE
    unused = in_wal_mode and not storage.with_name(f"{storage.name}-wal").exists()
    return f"{storage.absolute().as_uri()}?mode=ro&{'immutable=1' if unused else 'readonly_shm=1'}"


def _without_success(ended: Iterable[tuple[int, str, str, str, Any, float]]) -> list[FailedRun]:
    """Of runs, newest first, those that failed and that no later success makes good, be it of a run made from them."""
    failed: dict[_Work, FailedRun] = {}
    succeeded: set[_Work] = set()
    newest: dict[str, _Work] = {}  # of the runs that go back to one run: what the newest of them was for
    for _, run, job, status, body, moment in ended:
        root, assets, steps = _request_of(body)
        own = _Work(job, frozenset(steps or ["__".join(path) for path in assets]) if _is_ad_hoc(job) else frozenset())
        work = newest.setdefault(str(root or run), own)
        if status == "SUCCESS" or any(each.covers(work) for each in succeeded):
            succeeded |= {work, own}
        elif work in failed:
            failed[work] = replace(failed[work], often=failed[work].often + 1)
        else:
            name = _listed(["/".join(path) for path in assets] or steps) if _is_ad_hoc(job) else ""
            failed[work] = FailedRun(run, name or job, datetime.fromtimestamp(moment, UTC))
    return list(failed.values())


def _is_ad_hoc(job: str) -> bool:
    return job.startswith(_AD_HOC)


def _request_of(body: Any) -> tuple[str | None, list[list[str]], list[str]]:
    """The run that a run goes back to, the assets and checks it was asked for, its steps: as far as Dagster tells."""
    try:
        kept = json.loads(body)
        assets, checks = ((kept.get(f"{kind}_selection") or {"__frozenset__": []}) for kind in ("asset", "asset_check"))
        paths = [each["path"] for each in assets["__frozenset__"]]
        paths += [[*each["asset_key"]["path"], each["name"]] for each in checks["__frozenset__"]]
        steps = [*map(str, kept.get("step_keys_to_execute") or [])]
        return kept.get("root_run_id"), [[*map(str, path)] for path in paths], steps
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None, [], []


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(sorted(names)[:_NAMED])}{more}"
