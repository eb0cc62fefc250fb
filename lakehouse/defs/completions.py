"""What an alert is about, a job or a check; and the newest finished runs of a table's jobs, as Dagster stores them."""

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal

import dagster as dg

from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.runs import find_end, read_finished_runs, written_since

BUTTON_RUNS = "materialization"
"""The beginning of the subject of runs without a job of their own, which names their assets of the table.

These are the runs of the Materialize button, of backfills and of automation. Runs of other assets are other subjects.
"""
_BUTTON_JOB = "__ASSET_JOB"  # Dagster's name of the job of such runs
_LIMIT, _BUTTON_LIMIT = 20, 50  # newest records to read; the runs of the button are those of all tables
_FAILURE = dg.DagsterRunStatus.FAILURE


@dataclass(frozen=True)
class Completion:
    """One finished run of a job, or one evaluation of a check.

    ``id`` identifies it among those of its subject, ``at`` is when it ended. ``run_id`` is ``None`` if no run is behind
    it. ``detail`` is the description of a check; ``read_error`` reads the error of a run.
    """

    id: int
    is_failure: bool
    at: datetime
    run_id: str | None
    severity: str = "ERROR"
    detail: str = ""


@dataclass(frozen=True)
class Subject:
    """A job or a check, and its newest completions, newest first (at least one)."""

    name: str
    kind: Literal["run", "check"]
    completions: Sequence[Completion]

    @property
    def is_failing(self) -> bool:
        """Whether the newest completion is a failure."""
        return self.completions[0].is_failure

    @property
    def failure_ids(self) -> list[int]:
        """The ids of all failures."""
        return [completion.id for completion in self.completions if completion.is_failure]

    def streak(self, failure: Completion) -> list[Completion]:
        """Return a failure and those directly before it, newest first."""
        return list(takewhile(lambda c: c.is_failure, self.completions[self.completions.index(failure) :]))


def read_runs(
    instance: dg.DagsterInstance, entry: CatalogEntry, asset_keys: Iterable[dg.AssetKey], location: str | None
) -> Iterator[Subject]:
    """Read the finished runs of the jobs of a table, and those of its assets without a job; canceled runs do not count.

    A failed run is over if a later run succeeds, or if all assets that it was to write were written since. Only runs of
    the code location ``location`` count; ``None`` means all.
    """
    job_keys = {entry.merge_job: entry.merge_job_keys, entry.maintain_job: [], entry.verify_job: []}
    for job, keys in job_keys.items():
        yield from _run_subject(instance, job, read_finished_runs(instance, job, _LIMIT, location), keys)
    own_keys = set(asset_keys)
    selections: dict[frozenset[dg.AssetKey], list[dg.RunRecord]] = {}
    for record in read_finished_runs(instance, _BUTTON_JOB, _BUTTON_LIMIT, location):
        selections.setdefault(frozenset(own_keys & _selected_keys(record)), []).append(record)
    for selected, records in selections.items():
        names = ", ".join(sorted(key.to_user_string() for key in selected))
        if selected:
            yield from _run_subject(instance, f"{BUTTON_RUNS} of {names}", records[:_LIMIT], selected)


def _selected_keys(record: dg.RunRecord) -> Set[dg.AssetKey]:
    return record.dagster_run.asset_selection or frozenset()


def _run_subject(
    instance: dg.DagsterInstance, name: str, records: Sequence[dg.RunRecord], keys: Collection[dg.AssetKey]
) -> Iterator[Subject]:
    """The runs of a job that writes these assets; nothing if no run is finished."""
    completions = [_run_completion(record) for record in records]
    now = datetime.now(UTC)
    if completions and completions[0].is_failure and keys and written_since(instance, records[0], keys, now):
        completions.insert(0, Completion(id=0, is_failure=False, at=now, run_id=None))
    if completions:
        yield Subject(name, "run", completions)


def _run_completion(record: dg.RunRecord) -> Completion:
    run = record.dagster_run
    return Completion(record.storage_id, run.status is _FAILURE, find_end(record), run.run_id)


def read_error(instance: dg.DagsterInstance, run_id: str) -> str:
    """Read why a run failed; empty if Dagster stores no reason."""
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.RUN_FAILURE):
        event = entry.dagster_event
        data = event.job_failure_data if event and event.event_specific_data else None
        step = data.first_step_failure_event if data else None
        failure = step.step_failure_data if step else None
        if failure and failure.user_failure_data and failure.user_failure_data.description:
            return failure.user_failure_data.description
        error = failure.error if failure else data.error if data else None
        if error:
            return (error.cause or error).message
        return event.message or "" if event else ""
    return ""
