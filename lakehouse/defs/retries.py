"""When a run that failed is asked for again: after a pause that doubles with every failure in a row."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import dagster as dg

from lakehouse.defs.runs import writes

_FIRST, _LONGEST = timedelta(minutes=1), timedelta(hours=1)
_BUTTON = "__ASSET_JOB"  # the job of runs that the Materialize button starts
_ENOUGH = 8  # failures in a row that make the pause the longest
_RECENT = 10  # successes of the Materialize button among which to look for one that wrote the asset
_FAILURE, _SUCCESS = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS


def pause_after(failures: int) -> timedelta:
    """How long after the last of so many failures in a row, at least one, a run is asked for again."""
    return min(_FIRST * (1 << min(failures - 1, _ENOUGH)), _LONGEST)


def reason_to_wait(instance: dg.DagsterInstance, job: str, key: dg.AssetKey, now: datetime) -> str | None:
    """Why a run of the job is not asked for yet, or ``None`` where none of them failed, or the pause is over.

    Counted are the failures since the last run that succeeded, be it of this job or of the Materialize button for
    the asset; runs that somebody canceled do not count. The clock is only there to wait: a failure that lies
    further in the future than its pause does not block.
    """
    failed = _failures(instance, job)
    if not failed or _written_since(instance, failed[0], key):
        return None
    pause = pause_after(len(failed))
    due = _ended(failed[0]) + pause
    if not now < due <= now + 2 * pause:
        return None
    run = failed[0].dagster_run
    often = f", {'at least ' if len(failed) == _ENOUGH else ''}{len(failed)} times in a row" if failed[1:] else ""
    return (
        f"run {run.run_id[:8]} of {job} failed{often}; it is asked for again at {due:%H:%M:%S} UTC."
        " See its error; a run that you start yourself does not wait."
    )


def _failures(instance: dg.DagsterInstance, job: str) -> Sequence[dg.RunRecord]:
    """The failed runs of a job since one succeeded, newest first, as many as make a difference."""
    ended = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=[_FAILURE, _SUCCESS]), limit=_ENOUGH)
    return list(takewhile(lambda record: record.dagster_run.status is _FAILURE, ended))


def _written_since(instance: dg.DagsterInstance, failed: dg.RunRecord, key: dg.AssetKey) -> bool:
    """Whether a run of the Materialize button, made later than this one, wrote the asset and succeeded."""
    button = dg.RunsFilter(job_name=_BUTTON, statuses=[_SUCCESS])
    later = (one for one in instance.get_run_records(button, limit=_RECENT) if one.storage_id > failed.storage_id)
    return any(writes(instance, one.dagster_run, key) for one in later)


def _ended(record: dg.RunRecord) -> datetime:
    """When a run ended; for one that never started, when that was written down."""
    return datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp
