"""The newest evaluations of checks, as Dagster stores them: a record is planned by a run and evaluated later."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

import dagster as dg

from lakehouse.defs.completions import Completion, Subject

if TYPE_CHECKING:
    from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

_LIMIT = 20  # newest records to read of each check
LatestRecords: TypeAlias = "Mapping[dg.AssetCheckKey, AssetCheckExecutionRecord]"
Histories: TypeAlias = "Mapping[str, Sequence[AssetCheckExecutionRecord]]"
"""The newest records of checks, planned and evaluated, newest first, by the name of the check."""


def latest_records(instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]) -> LatestRecords:
    """Read the latest record of each check, planned or evaluated, in one query."""
    return instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)


def read_histories(
    instance: dg.DagsterInstance, latest: LatestRecords, newest_id: int, open_names: Collection[str]
) -> Histories:
    """Read the histories of checks that may have changed since the record ``newest_id``.

    Skips a check that is not in ``open_names``, if its latest record passed and is not newer.
    """
    names = {key: f"{key.asset_key.to_user_string()}:{key.name}" for key in latest}
    return {
        names[key]: instance.event_log_storage.get_asset_check_execution_history(key, _LIMIT)
        for key, record in latest.items()
        if record.id > newest_id or names[key] in open_names or not _has_passed(record)
    }


def check_subjects(histories: Histories) -> Iterator[Subject]:
    """The newest evaluations of each check; a planned evaluation does not count."""
    for name, records in histories.items():
        completions = list(_check_completions(records))
        if completions:
            yield Subject(name, "check", completions)


def planned_checks(histories: Histories) -> set[str]:
    """The names of checks with a planned evaluation, also below newer ones: its run may still report a failure."""
    return {name for name, records in histories.items() if any(_evaluation(record) is None for record in records)}


def _evaluation(record: "AssetCheckExecutionRecord") -> dg.AssetCheckEvaluation | None:
    evaluation: object = record.evaluation  # of another type if it is only planned
    return evaluation if isinstance(evaluation, dg.AssetCheckEvaluation) else None


def _has_passed(record: "AssetCheckExecutionRecord") -> bool:
    evaluation = _evaluation(record)
    return evaluation is not None and evaluation.passed


def _check_completions(records: "Iterable[AssetCheckExecutionRecord]") -> Iterator[Completion]:
    for record in records:
        evaluation = _evaluation(record)
        if evaluation is not None:
            timestamp = record.event.timestamp if record.event else record.create_timestamp
            ended_at, run_id = datetime.fromtimestamp(timestamp, UTC), record.run_id or None
            severity, detail = evaluation.severity.value, evaluation.description or ""
            yield Completion(record.id, not evaluation.passed, ended_at, run_id, severity, detail)
