"""What is written without a run of Dagster is told to it at the next tick, each version of a table once. No Spark."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest

from lakehouse.defs import reported
from lakehouse.defs.build import build_defs
from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.reported import CommitReporter
from lakehouse.defs.retries import is_behind, reason_to_wait
from lakehouse.defs.specs import table_specs
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.commits import Commit, Kind
from lakehouse.ledger.positions import Range, SourceId
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.logs import Written

pytestmark = pytest.mark.invariant(12)

MERGED, CHANGES, ROLLUP = (dg.AssetKey(name) for name in ("temperatures", *temperatures.derived))
JOB = "merge_temperatures"
LISTED = Listed(temperatures)
SPECS = table_specs(LISTED)


class Told(Written):
    """A table whose commits say what those of a merge say, and account for their records."""

    def _next(self, kind: Kind) -> Commit:
        ledger = self.ledger
        commit = ledger.next_commit(kind, "cli").model_copy(update={"source": SourceId("kafka", "c/t")})
        if kind != "batch":
            return commit
        start = ledger.progress.positions[0] if ledger.progress else 0
        read = {"ranges": (Range(0, start, start + 1),), "progress": {0: start + 1}, "read": 1}
        return commit.model_copy(update=read)


class Home:
    """The tables of a declaration, and the Dagster that is told of them."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.settings = Settings(home=folder)
        self.instance = instance
        self.reporter = CommitReporter(LISTED)
        self.merged = self.create("temperatures")

    def create(self, name: str) -> Told:
        return Told.create(Path(self.settings.table_uri(name)), name)

    def report(self) -> None:
        self.reporter.report(self.instance, self.settings)

    def told(self, key: dg.AssetKey = MERGED) -> list[dg.AssetMaterialization]:
        """What was reported of an asset, oldest first."""
        found = self.instance.fetch_materializations(key, limit=100).records
        return [record.asset_materialization for record in reversed(found) if record.asset_materialization]

    def versions(self, key: dg.AssetKey = MERGED) -> list[object]:
        return [each.metadata["table_version"].value for each in self.told(key)]

    def check(self, name: str) -> list[bool]:
        key = dg.AssetCheckKey(MERGED, name)
        stored = self.instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
        return [each.evaluation.passed for each in reversed(stored) if each.evaluation]

    def fail_a_run(self) -> datetime:
        """Let a run of the job fail; when it ended."""
        job = build_defs().get_repository_def().get_job(JOB)
        run = self.instance.create_run_for_job(job, run_id=str(uuid4()))
        failure = dg.DagsterEvent(event_type_value=dg.DagsterEventType.RUN_FAILURE.value, job_name=JOB)
        self.instance.report_dagster_event(failure, run.run_id)
        return datetime.now(UTC)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Home(tmp_path, instance)


def test_commits_of_the_command_line_are_told_once_with_what_they_did(home: Home) -> None:
    home.merged.batches(3)
    for _ in range(2):
        home.report()
    (event,) = home.told()
    told = {name: entry.value for name, entry in event.metadata.items()}
    assert (told["table_version"], told["dagster/row_count"]) == (3, 3)
    assert (told["batches"], told["read"], told["inserted"], told["total_read"]) == (3, 3, 3, 3)
    assert event.tags == {"dagster/data_version": "3"}
    assert "batch (3)" in (event.description or "")
    assert home.check("batches_accounted") == home.check("rejected_share") == [True]


def test_only_what_was_written_since_is_told(home: Home) -> None:
    home.merged.batches(2)
    home.report()
    home.merged.batches(1)
    home.report()
    assert home.versions() == [2, 3]
    assert home.told()[-1].metadata["read"].value == 1


def test_what_a_run_reported_is_not_told_again(home: Home) -> None:
    home.merged.batches(1)
    home.instance.report_runless_asset_event(dg.AssetMaterialization(MERGED, metadata={"table_version": 1}))
    home.report()
    assert home.versions() == [1]


def test_a_table_that_an_unfinished_run_writes_is_left_to_it(home: Home) -> None:
    job = build_defs().get_repository_def().get_job(JOB)
    run = home.instance.create_run_for_job(job, run_id=str(uuid4()), status=dg.DagsterRunStatus.STARTING)
    home.merged.batches(1)
    home.report()
    assert home.told() == []
    home.instance.report_run_failed(run)
    home.report()
    assert home.versions() == [1]


def test_a_commit_that_does_not_add_up_fails_the_check_until_it_is_accepted(home: Home) -> None:
    home.merged.merge(1, 2)  # two rows of one record
    home.report()
    home.merged.batches(1)
    home.report()
    assert home.check("batches_accounted") == [False, False]
    home.merged.merge_nothing("acceptance")
    home.merged.edit(
        3, lambda info: info | {"userMetadata": info["userMetadata"].replace('"accepted":[]', '"accepted":[1]')}
    )
    home.report()
    assert home.check("batches_accounted") == [False, False, True]


def test_a_restore_undoes_a_commit_that_does_not_add_up_and_one_to_it_brings_it_back(home: Home) -> None:
    home.merged.batches(1)
    wrong = home.merged.merge(1, 2)
    home.report()
    for version in (wrong - 1, wrong):
        home.merged.restore(version)
        home.merged.batches(1)
        home.report()
    assert home.check("batches_accounted") == [False, True, False]


def test_every_table_of_the_declaration_is_told(home: Home) -> None:
    home.merged.batches(1)
    others = {spec.key: spec.key.path[-1] for spec in SPECS if spec.key != MERGED}
    for name in others.values():
        home.create(name).merge(7, kind="derived")
    home.report()
    assert {key: home.versions(key) for key in others} == {key: [1] for key in others}
    assert home.told(CHANGES)[0].metadata["inserted"].value == 1


def test_maintenance_is_told_and_leaves_the_version_of_the_data(home: Home) -> None:
    home.merged.batches(1)
    home.report()
    home.merged.merge_nothing("maintenance")
    home.report()
    assert home.versions() == [1, 2]
    assert [each.tags for each in home.told()] == [{"dagster/data_version": "1"}] * 2


def test_a_table_that_cannot_be_read_hides_no_other(home: Home) -> None:
    home.merged.batches(1)
    home.create("temperatures_rejected").log_file(0).write_text("{")
    home.create("temperatures_changes").merge(7, kind="derived")
    home.report()
    assert home.versions() == [1]
    assert home.versions(CHANGES) == [1]
    assert home.told(dg.AssetKey("temperatures_rejected")) == []


def test_a_merge_by_the_command_line_ends_the_pause_after_a_failure(home: Home) -> None:
    home.merged.batches(1)
    failed = home.fail_a_run()
    home.report()
    assert reason_to_wait(home.instance, JOB, MERGED, failed + timedelta(seconds=10)), "it merged before the failure"
    home.merged.batches(1)
    home.report()
    assert reason_to_wait(home.instance, JOB, MERGED, failed + timedelta(seconds=10)) is None


def test_maintenance_ends_no_pause_and_hides_nothing_that_is_behind(home: Home) -> None:
    rollup = home.create(ROLLUP.path[-1])
    home.merged.batches(1)
    rollup.merge(7, kind="derived")
    failed = home.fail_a_run()
    for table in (home.merged, rollup):
        table.merge_nothing("maintenance")
    home.report()
    assert home.versions() == home.versions(ROLLUP) == [2]
    assert reason_to_wait(home.instance, JOB, MERGED, failed + timedelta(seconds=10))
    assert is_behind(home.instance, JOB, [MERGED, ROLLUP], failed + timedelta(seconds=10))


def test_what_was_told_is_told_no_second_time_by_another_process(home: Home) -> None:
    home.merged.batches(1)
    home.report()
    home.reporter = CommitReporter(LISTED)
    home.report()
    assert home.versions() == [1]


def test_what_was_written_is_told_also_where_the_log_no_longer_holds_the_version_that_dagster_knows(home: Home) -> None:
    home.merged.batches(2)
    home.report()
    home.merged.batches(4)
    home.merged.clean(before=5)
    for _ in range(2):
        home.report()
    assert home.versions() == [2, 6]


def test_a_table_whose_log_is_cleaned_up_to_its_newest_version_is_told_no_second_time(home: Home) -> None:
    home.merged.batches(2)
    home.report()
    home.merged.table.create_checkpoint()
    for version in range(3):
        home.merged.log_file(version).unlink()
    home.report()
    assert home.versions() == [2]


def test_a_tick_reads_no_history_and_asks_dagster_nothing_where_nothing_was_written(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.merged.batches(1)
    home.report()

    def read(*_: object) -> None:
        raise AssertionError("something was read")

    monkeypatch.setattr(home.instance, "get_latest_materialization_event", read)
    monkeypatch.setattr(reported, "merged_ledger", read)
    monkeypatch.setattr(reported, "read_ledger", read)
    home.report()
