"""A run that failed is asked for again after a pause that grows; a success ends it, and no clock can make it last."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest

from lakehouse.defs.build import build_defs
from lakehouse.defs.retries import COMMITTED_AT, is_behind, pause_after, reason_to_wait

pytestmark = pytest.mark.invariant(12)

KEY = dg.AssetKey("temperatures")
JOB = "merge_temperatures"
FAILURE, SUCCESS, CANCELED = (
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.CANCELED,
)
MINUTE = timedelta(minutes=1)


class Runs:
    """The runs of an instance, as Dagster writes them."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self._repository = build_defs().get_repository_def()
        self.failed_at = datetime.now(UTC)

    def add(self, status: dg.DagsterRunStatus, job: str = JOB, *keys: str) -> dg.DagsterRun:
        chosen = frozenset(map(dg.AssetKey, keys)) or None
        declared = self._repository.get_job(job)
        declared = declared.get_subset(asset_selection=chosen) if chosen else declared
        started = self.instance.create_run_for_job(declared, run_id=str(uuid4()), asset_selection=chosen)
        self.instance.report_dagster_event(_event(status, job), started.run_id)
        self.failed_at = datetime.now(UTC) if status is FAILURE else self.failed_at
        return started

    def wrote(self, asset: str) -> None:
        """Tell that an asset was written, as a step does, in whatever job."""
        self.instance.report_runless_asset_event(dg.AssetMaterialization(asset))

    def committed(self, at: datetime) -> None:
        """Tell that the table was written at this time, as a tick does of a commit that no run told."""
        metadata = {COMMITTED_AT: dg.MetadataValue.timestamp(at)}
        self.instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata=metadata))

    def wait(self, after: timedelta) -> str | None:
        """Why to wait, so long after the newest failure."""
        return reason_to_wait(self.instance, JOB, KEY, self.failed_at + after)


def _event(status: dg.DagsterRunStatus, job: str) -> dg.DagsterEvent:
    kinds: dict[Any, Any] = {
        FAILURE: dg.DagsterEventType.RUN_FAILURE,
        SUCCESS: dg.DagsterEventType.RUN_SUCCESS,
        CANCELED: dg.DagsterEventType.RUN_CANCELED,
    }
    return dg.DagsterEvent(event_type_value=kinds[status].value, job_name=job)


@pytest.fixture
def runs() -> Iterator[Runs]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Runs(instance)


def test_the_pause_doubles_up_to_an_hour() -> None:
    assert [pause_after(failures) / MINUTE for failures in (1, 2, 3, 4, 5, 6, 7, 8, 1000)] == [
        *(1, 2, 4, 8, 16, 32),
        *(60, 60, 60),
    ]


def test_without_a_failure_there_is_nothing_to_wait_for(runs: Runs) -> None:
    assert runs.wait(timedelta(0)) is None
    runs.add(SUCCESS)
    assert runs.wait(timedelta(0)) is None


def test_a_failed_run_is_asked_for_again_a_minute_later_and_the_reason_names_it(runs: Runs) -> None:
    failed = runs.add(FAILURE)
    said = runs.wait(timedelta(seconds=10)) or ""
    assert failed.run_id[:8] in said
    assert f"{runs.failed_at + MINUTE:%H:%M}" in said
    assert runs.wait(timedelta(seconds=61)) is None


def test_failures_in_a_row_make_it_longer(runs: Runs) -> None:
    for _ in range(3):
        runs.add(FAILURE)
    assert "3 times in a row" in (runs.wait(timedelta(minutes=3.9)) or "")
    assert runs.wait(timedelta(minutes=4.1)) is None


def test_a_success_between_them_starts_the_count_again(runs: Runs) -> None:
    for status in (FAILURE, FAILURE, FAILURE, SUCCESS, FAILURE):
        runs.add(status)
    assert runs.wait(timedelta(seconds=50))
    assert runs.wait(timedelta(seconds=61)) is None


def test_whoever_wrote_the_table_since_ends_the_pause(runs: Runs) -> None:
    runs.wrote("temperatures")
    runs.add(FAILURE)
    runs.wrote("locations")
    assert runs.wait(timedelta(seconds=10))
    runs.wrote("temperatures")
    for _ in range(12):
        runs.add(SUCCESS, "__ASSET_JOB", "locations")
    assert runs.wait(timedelta(seconds=10)) is None


def test_a_run_of_the_button_that_wrote_nothing_does_not_end_the_pause(runs: Runs) -> None:
    runs.add(FAILURE)
    runs.add(SUCCESS, "__ASSET_JOB", "temperatures", "temperatures_rejected")
    assert runs.wait(timedelta(seconds=10))


def test_a_run_that_somebody_ended_neither_counts_nor_ends_the_pause(runs: Runs) -> None:
    runs.add(CANCELED)
    assert runs.wait(timedelta(0)) is None
    runs.add(FAILURE)
    runs.add(CANCELED)
    assert "failed" in (runs.wait(timedelta(seconds=30)) or "")


@pytest.mark.parametrize("behind", [timedelta(days=365), timedelta(hours=1)], ids=str)
def test_an_end_that_lies_in_the_future_does_not_block(runs: Runs, behind: timedelta) -> None:
    runs.add(FAILURE)
    assert runs.wait(-behind) is None


def test_a_commit_that_lies_in_the_future_does_not_end_the_pause(runs: Runs) -> None:
    runs.add(FAILURE)
    runs.committed(runs.failed_at + timedelta(days=365))
    assert runs.wait(timedelta(seconds=10))
    assert runs.wait(timedelta(seconds=61)) is None
    assert is_behind(runs.instance, JOB, [KEY], runs.failed_at + timedelta(seconds=10))
    runs.committed(runs.failed_at + timedelta(seconds=5))
    assert runs.wait(timedelta(seconds=10)) is None
    assert not is_behind(runs.instance, JOB, [KEY], runs.failed_at + timedelta(seconds=10))


def test_a_clock_that_differs_a_little_does_not_take_the_pause_away(runs: Runs) -> None:
    runs.add(FAILURE)
    assert runs.wait(timedelta(seconds=-20))


def test_a_hundred_failures_are_counted_in_no_more_than_the_runs_that_matter(runs: Runs) -> None:
    for _ in range(12):
        runs.add(FAILURE)
    assert runs.wait(timedelta(minutes=59))
    assert runs.wait(timedelta(minutes=61)) is None
