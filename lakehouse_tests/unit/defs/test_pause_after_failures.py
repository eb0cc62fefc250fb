"""The sensor requests a failed run again after a growing pause. A success ends it, and no clock makes it last."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from lakehouse.defs.build import build_defs
from lakehouse.defs.runs import COMMITTED_AT, keys_behind, pause_after, reason_to_wait
from lakehouse.defs.specs import CatalogEntry
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.alert_world import CANCELED, EVENTS, FAILURE, SUCCESS
from lakehouse_tests.helpers.code_locations import create_run, repository_of

KEY = dg.AssetKey("temperatures")
JOB = "merge_temperatures"
MINUTE = timedelta(minutes=1)


class Runs:
    """The runs of an instance, as Dagster writes them."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self._definitions = build_defs()
        self.failed_at = datetime.now(UTC)

    def add(
        self, status: dg.DagsterRunStatus, job: str = JOB, *keys: str, location: str | None = None
    ) -> dg.DagsterRun:
        run = create_run(self.instance, self._definitions, job, *keys, location=location)
        self.instance.report_dagster_event(_event(status, job), run.run_id)
        self.failed_at = datetime.now(UTC) if status is FAILURE else self.failed_at
        return run

    def report_write(self, asset: str) -> None:
        """Report that an asset was written, as a step of any job does."""
        self.instance.report_runless_asset_event(dg.AssetMaterialization(asset))

    def report_commit(self, at: datetime) -> None:
        """Report a commit at this time, as the sensor does for a commit that no run reported."""
        metadata = {COMMITTED_AT: dg.MetadataValue.timestamp(at)}
        self.instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata=metadata))

    def reason_to_wait(self, after: timedelta) -> str | None:
        """The reason to wait at this time after the newest failure."""
        return reason_to_wait(self.instance, JOB, KEY, self.failed_at + after)


def _event(status: dg.DagsterRunStatus, job: str) -> dg.DagsterEvent:
    event_types: dict[Any, Any] = {**EVENTS, dg.DagsterRunStatus.STARTED: dg.DagsterEventType.RUN_START}
    return dg.DagsterEvent(event_type_value=event_types[status].value, job_name=job)


@pytest.fixture
def runs() -> Iterator[Runs]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Runs(instance)


@pytest.mark.invariant("12.5")
def test_the_pause_doubles_up_to_an_hour() -> None:
    assert [pause_after(failures) / MINUTE for failures in (1, 2, 3, 4, 5, 6, 7, 8, 1000)] == [
        *(1, 2, 4, 8, 16, 32),
        *(60, 60, 60),
    ]


@pytest.mark.invariant("12.5")
def test_without_a_failure_there_is_no_pause(runs: Runs) -> None:
    assert runs.reason_to_wait(timedelta(0)) is None
    runs.add(SUCCESS)
    assert runs.reason_to_wait(timedelta(0)) is None


@pytest.mark.invariant("12.5")
def test_the_pause_after_a_failure_is_a_minute_and_the_reason_names_the_run(runs: Runs) -> None:
    failed_run = runs.add(FAILURE)
    reason = runs.reason_to_wait(timedelta(seconds=10)) or ""
    assert failed_run.run_id[:8] in reason
    assert f"{runs.failed_at + MINUTE:%H:%M}" in reason
    assert runs.reason_to_wait(timedelta(seconds=61)) is None


@pytest.mark.invariant("12.5")
def test_consecutive_failures_make_the_pause_longer(runs: Runs) -> None:
    for _ in range(3):
        runs.add(FAILURE)
    assert "3 times in a row" in (runs.reason_to_wait(timedelta(minutes=3.9)) or "")
    assert runs.reason_to_wait(timedelta(minutes=4.1)) is None


@pytest.mark.invariant("12.5")
def test_a_success_resets_the_count_of_failures(runs: Runs) -> None:
    for status in (FAILURE, FAILURE, FAILURE, SUCCESS, FAILURE):
        runs.add(status)
    assert runs.reason_to_wait(timedelta(seconds=50))
    assert runs.reason_to_wait(timedelta(seconds=61)) is None


@pytest.mark.invariant("12.5")
def test_any_later_write_of_the_table_ends_the_pause(runs: Runs) -> None:
    runs.report_write("temperatures")
    runs.add(FAILURE)
    runs.report_write("locations")
    assert runs.reason_to_wait(timedelta(seconds=10))
    runs.report_write("temperatures")
    for _ in range(12):
        runs.add(SUCCESS, "__ASSET_JOB", "locations")
    assert runs.reason_to_wait(timedelta(seconds=10)) is None


@pytest.mark.invariant("12.5")
def test_a_manual_run_that_wrote_nothing_does_not_end_the_pause(runs: Runs) -> None:
    runs.add(FAILURE)
    runs.add(SUCCESS, "__ASSET_JOB", "temperatures", "temperatures_rejected")
    assert runs.reason_to_wait(timedelta(seconds=10))


@pytest.mark.invariant("12.5")
def test_a_canceled_run_neither_counts_nor_ends_the_pause(runs: Runs) -> None:
    runs.add(CANCELED)
    assert runs.reason_to_wait(timedelta(0)) is None
    runs.add(FAILURE)
    runs.add(CANCELED)
    assert "failed" in (runs.reason_to_wait(timedelta(seconds=30)) or "")


@pytest.mark.invariant("12.7")
@pytest.mark.parametrize("offset", [timedelta(days=365), timedelta(hours=1)], ids=str)
def test_a_failure_in_the_future_does_not_block(runs: Runs, offset: timedelta) -> None:
    runs.add(FAILURE)
    assert runs.reason_to_wait(-offset) is None


@pytest.mark.invariant("12.5", "12.7")
def test_a_commit_in_the_future_does_not_end_the_pause(runs: Runs) -> None:
    runs.add(FAILURE)
    runs.report_commit(runs.failed_at + timedelta(days=365))
    assert runs.reason_to_wait(timedelta(seconds=10))
    assert runs.reason_to_wait(timedelta(seconds=61)) is None
    assert keys_behind(runs.instance, JOB, [KEY], runs.failed_at + timedelta(seconds=10))
    runs.report_commit(runs.failed_at + timedelta(seconds=5))
    assert runs.reason_to_wait(timedelta(seconds=10)) is None
    assert not keys_behind(runs.instance, JOB, [KEY], runs.failed_at + timedelta(seconds=10))


@pytest.mark.invariant("12.6")
def test_after_a_failure_behind_its_merge_only_the_derived_tables_are_behind(runs: Runs) -> None:
    """A run that was killed before it could report its commit: the sensor reports it, and no run does so again."""
    keys = CatalogEntry(temperatures).merge_job_keys
    run = runs.add(dg.DagsterRunStatus.STARTED)
    committed_at = datetime.now(UTC)
    runs.instance.report_dagster_event(_event(FAILURE, JOB), run.run_id)
    soon = datetime.now(UTC) + timedelta(seconds=10)
    assert keys_behind(runs.instance, JOB, keys, soon) == keys, "before the sensor has reported the commit"
    runs.report_commit(committed_at)
    assert keys_behind(runs.instance, JOB, keys, soon) == keys[2:]
    runs.report_write(keys[2].to_user_string())
    assert keys_behind(runs.instance, JOB, keys, soon) == keys[3:]
    runs.report_write(keys[3].to_user_string())
    assert keys_behind(runs.instance, JOB, keys, soon) == []


@pytest.mark.invariant("12.5")
def test_a_small_clock_difference_does_not_end_the_pause(runs: Runs) -> None:
    runs.add(FAILURE)
    assert runs.reason_to_wait(timedelta(seconds=-20))


@pytest.mark.invariant("12.5")
def test_more_failures_than_are_counted_give_the_longest_pause(runs: Runs) -> None:
    for _ in range(12):
        runs.add(FAILURE)
    assert runs.reason_to_wait(timedelta(minutes=59))
    assert runs.reason_to_wait(timedelta(minutes=61)) is None


@pytest.mark.invariant("12.5")
def test_only_runs_of_the_same_code_location_make_and_end_a_pause(runs: Runs) -> None:
    ours = repository_of("ours").get_label()

    def waits() -> list[bool]:
        soon = runs.failed_at + timedelta(seconds=10)
        reason = reason_to_wait(runs.instance, JOB, KEY, soon, ours)
        return [reason is not None, keys_behind(runs.instance, JOB, [KEY], soon, ours) != []]

    runs.add(FAILURE, location="another")
    assert waits() == [False, False]
    runs.add(FAILURE, location="ours")
    for _ in range(9):
        runs.add(SUCCESS, location="another")
    assert waits() == [True, True]
    runs.add(SUCCESS, location="ours")
    assert waits() == [False, False]
    runs.add(FAILURE)
    assert waits() == [True, True], "a run without a code location"
