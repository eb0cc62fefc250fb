"""When a run that failed is asked for again: after a pause that doubles with every failure in a row."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import dagster as dg

COMMITTED_AT = "committed_at"  # of a materialization that no run made: when its rows were merged
_FIRST, _LONGEST = timedelta(minutes=1), timedelta(hours=1)
_ENOUGH = 8  # failures in a row that make the pause the longest
_FAILURE, _SUCCESS = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS


def pause_after(failures: int) -> timedelta:
    """How long after the last of so many failures in a row, at least one, a run is asked for again."""
    return min(_FIRST * (1 << min(failures - 1, _ENOUGH)), _LONGEST)


def reason_to_wait(instance: dg.DagsterInstance, job: str, key: dg.AssetKey, now: datetime) -> str | None:
    """Why a run of the job is not asked for yet, or ``None`` where none of them failed, or the pause is over.

    Counted are the failures since the last run of the job that succeeded; runs that somebody canceled do not count.
    An asset that was written since the newest of them, by whatever job or without one, is nothing to wait for. The
    clock is only there to wait: a failure that lies further in the future than its pause does not block, and what was
    written in the future ends no pause.
    """
    failed = _failures(instance, job)
    if not failed or _written_since(instance, failed[0], [key], now):
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


def is_behind(instance: dg.DagsterInstance, job: str, keys: Iterable[dg.AssetKey], now: datetime) -> bool:
    """Whether the newest run of the job that ended failed, and one of the assets was not written since, up to now."""
    failed = _failures(instance, job)
    return bool(failed) and not _written_since(instance, failed[0], keys, now)


def _failures(instance: dg.DagsterInstance, job: str) -> Sequence[dg.RunRecord]:
    """The failed runs of a job since one succeeded, newest first, as many as make a difference."""
    ended = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=[_FAILURE, _SUCCESS]), limit=_ENOUGH)
    return list(takewhile(lambda record: record.dagster_run.status is _FAILURE, ended))


def _written_since(
    instance: dg.DagsterInstance, failed: dg.RunRecord, keys: Iterable[dg.AssetKey], now: datetime
) -> bool:
    """Whether all the assets were written after a run ended: as a run reported, or as a tick did for who has none.

    A time behind now does not count: a clock was wrong.
    """
    ended = _ended(failed).timestamp()
    written = map(instance.get_latest_materialization_event, keys)
    return all(event is not None and ended < _written_at(event) <= now.timestamp() for event in written)


def _written_at(event: dg.EventLogEntry) -> float:
    told = event.asset_materialization.metadata.get(COMMITTED_AT) if event.asset_materialization else None
    return told.value if isinstance(told, dg.TimestampMetadataValue) else event.timestamp


def _ended(record: dg.RunRecord) -> datetime:
    """When a run ended; for one that never started, when that was written down."""
    return datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp
