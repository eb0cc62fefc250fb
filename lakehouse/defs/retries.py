"""When the sensor requests a failed run again: after a pause that doubles with every consecutive failure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import dagster as dg

from lakehouse.defs.finished_runs import read_finished_runs

COMMITTED_AT = "committed_at"  # metadata of a materialization without a run: when its rows were merged
_FIRST_PAUSE, _LONGEST = timedelta(minutes=1), timedelta(hours=1)
_COUNTED_FAILURES = 8  # consecutive failures that reach the longest pause; more make no difference


def pause_after(failures: int) -> timedelta:
    """The pause before the next request, after this number of consecutive failures (at least one)."""
    return min(_FIRST_PAUSE * (1 << min(failures - 1, _COUNTED_FAILURES)), _LONGEST)


def reason_to_wait(
    instance: dg.DagsterInstance, job: str, key: dg.AssetKey, now: datetime, location: str | None = None
) -> str | None:
    """Why the sensor does not request a run of the job yet; ``None`` if no run failed, or if the pause is over.

    Counts the failures since the last successful run of the job; canceled runs do not count. Only runs of the code
    location ``location`` count; ``None`` means all. The pause ends if the asset was written after the newest failure,
    by any job or without one. Clocks cannot make the pause last: a failure further in the future than its pause does
    not block, and a write in the future does not end a pause.
    """
    failures = _failures(instance, job, location)
    if not failures or written_since(instance, failures[0], [key], now):
        return None
    pause = pause_after(len(failures))
    due_at = find_end(failures[0]) + pause
    if not now < due_at <= now + 2 * pause:
        return None
    run = failures[0].dagster_run
    at_least = "at least " if len(failures) == _COUNTED_FAILURES else ""
    repetition = f", {at_least}{len(failures)} times in a row" if failures[1:] else ""
    return (
        f"Run {run.run_id[:8]} of {job} failed{repetition}. The sensor requests it again at {due_at:%H:%M:%S} UTC."
        " See the error of the run. A run that you start yourself begins at once."
    )


def keys_behind(
    instance: dg.DagsterInstance, job: str, keys: Sequence[dg.AssetKey], now: datetime, location: str | None = None
) -> list[dg.AssetKey]:
    """The assets that a run has to write because the newest finished run of the job failed; empty if there are none.

    ``keys`` begin with the merged table and its rejected records. If the table was written since the failed run
    started, that run or another one has merged, and only the derived tables are behind that were not written since it
    ended. Only runs of the code location ``location`` count; ``None`` means all.
    """
    failures = _failures(instance, job, location)
    if not failures or written_since(instance, failures[0], keys, now):
        return []
    started_at = failures[0].start_time
    if started_at is None or not _is_written_after(instance, keys[0], started_at, now):
        return list(keys)
    return [key for key in keys[2:] if not written_since(instance, failures[0], [key], now)]


def _failures(instance: dg.DagsterInstance, job: str, location: str | None) -> Sequence[dg.RunRecord]:
    """The failed runs of a job since the last success, newest first, at most ``_COUNTED_FAILURES``."""
    records = read_finished_runs(instance, job, _COUNTED_FAILURES, location)
    return list(takewhile(lambda record: record.dagster_run.status is dg.DagsterRunStatus.FAILURE, records))


def written_since(
    instance: dg.DagsterInstance, failed_run: dg.RunRecord, keys: Iterable[dg.AssetKey], now: datetime
) -> bool:
    """Whether all assets were written after a run ended, as a run or the sensor reported.

    A time after ``now`` does not count: it comes from a wrong clock.
    """
    ended_at = find_end(failed_run).timestamp()
    return all(_is_written_after(instance, key, ended_at, now) for key in keys)


def _is_written_after(instance: dg.DagsterInstance, key: dg.AssetKey, time: float, now: datetime) -> bool:
    event = instance.get_latest_materialization_event(key)
    return event is not None and time < _written_at(event) <= now.timestamp()


def _written_at(event: dg.EventLogEntry) -> float:
    committed_at = event.asset_materialization.metadata.get(COMMITTED_AT) if event.asset_materialization else None
    return committed_at.value if isinstance(committed_at, dg.TimestampMetadataValue) else event.timestamp


def find_end(record: dg.RunRecord) -> datetime:
    """When a run ended; for a run that never started, when its record was last updated."""
    return datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp
