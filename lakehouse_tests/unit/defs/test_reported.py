"""The sensor reports commits that no Dagster run reported, each version of a table once. Without Spark."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.defs import automation
from lakehouse.defs.automation import CommitReporter, known_version
from lakehouse.defs.build import build_defs
from lakehouse.defs.figures import entries_of_run
from lakehouse.defs.runs import keys_behind, reason_to_wait
from lakehouse.defs.specs import CatalogEntry, table_specs
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.commits import Commit, Kind
from lakehouse.ledger.positions import Range, SourceId
from lakehouse.settings import Settings
from lakehouse_tests.helpers.code_locations import check_results, create_run
from lakehouse_tests.helpers.dagster_runs import all_runs
from lakehouse_tests.helpers.tables.logs import WrittenTable

MERGED, CHANGES, ROLLUP = (dg.AssetKey(name) for name in ("temperatures", *temperatures.derived))
JOB = "merge_temperatures"
CATALOG_ENTRY = CatalogEntry(temperatures)
SPECS = table_specs(CATALOG_ENTRY)


class MergedTable(WrittenTable):
    """A table whose commits have the metadata of merges, and account for their records."""

    def _next(self, kind: Kind) -> Commit:
        ledger = self.ledger
        commit = ledger.next_commit(kind, "cli").model_copy(update={"source": SourceId("kafka", "c/t")})
        if kind != "batch":
            return commit
        start = ledger.progress.positions[0] if ledger.progress else 0
        batch_fields = {"ranges": (Range(0, start, start + 1),), "progress": {0: start + 1}, "read": 1}
        return commit.model_copy(update=batch_fields)


class Home:
    """The tables of a declaration, and the Dagster instance that receives the reports."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.settings = Settings(home=folder)
        self.instance = instance
        self.reporter = CommitReporter(CATALOG_ENTRY)
        self.merged = self.create("temperatures")

    def create(self, name: str) -> MergedTable:
        return MergedTable.create(Path(self.settings.table_uri(name)), name)

    def report(self) -> None:
        self.reporter.report(self.instance, self.settings, None)

    def reports(self, key: dg.AssetKey = MERGED) -> list[dg.AssetMaterialization]:
        """The reported materializations of an asset, oldest first."""
        records = self.instance.fetch_materializations(key, limit=100).records
        return [record.asset_materialization for record in reversed(records) if record.asset_materialization]

    def versions(self, key: dg.AssetKey = MERGED) -> list[object]:
        return [report.metadata["table_version"].value for report in self.reports(key)]

    def check(self, name: str) -> list[bool]:
        return [passed for passed, _ in check_results(self.instance, MERGED, name)]

    def fail_a_run(self) -> datetime:
        """Let a run of the job fail; returns when it ended."""
        run = create_run(self.instance, build_defs(), JOB)
        failure = dg.DagsterEvent(event_type_value=dg.DagsterEventType.RUN_FAILURE.value, job_name=JOB)
        self.instance.report_dagster_event(failure, run.run_id)
        return datetime.now(UTC)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Home(tmp_path, instance)


@pytest.mark.invariant("12.8")
def test_commits_of_the_command_line_are_reported_once_with_their_counts(home: Home) -> None:
    home.merged.batches(3)
    for _ in range(2):
        home.report()
    (event,) = home.reports()
    metadata = {name: entry.value for name, entry in event.metadata.items()}
    assert (metadata["table_version"], metadata["dagster/row_count"]) == (3, 3)
    assert [metadata[name] for name in ("batches", "records_read", "rows_inserted")] == [3, 3, 3]
    assert all_runs(metadata["account"])["records_read"] == 3
    assert event.tags == {"dagster/data_version": "3"}
    assert "batch (3)" in (event.description or "")
    assert home.check("batches_accounted") == home.check("rejected_share") == [True]


@pytest.mark.invariant("12.8")
def test_only_new_commits_are_reported(home: Home) -> None:
    home.merged.batches(2)
    home.report()
    home.merged.batches(1)
    home.report()
    assert home.versions() == [2, 3]
    assert home.reports()[-1].metadata["records_read"].value == 1


@pytest.mark.invariant("12.8")
@pytest.mark.parametrize(("former", "versions"), [(5, 2), (2, 5)], ids=["fewer versions", "more versions"])
def test_a_table_that_was_created_again_is_reported_from_its_first_version(
    home: Home, former: int, versions: int
) -> None:
    home.merged.batches(former)
    home.report()
    shutil.rmtree(home.settings.table_uri("temperatures"))
    home.create("temperatures").batches(versions)
    home.report()
    home.report()
    assert home.versions() == [former, versions]
    assert [report.metadata["records_read"].value for report in home.reports()] == [former, versions]
    assert home.reports()[-1].tags == {"dagster/data_version": str(versions)}


@pytest.mark.invariant("12.8")
def test_an_older_copy_in_the_place_of_a_table_is_reported(home: Home, tmp_path: Path) -> None:
    uri = home.settings.table_uri("temperatures")
    home.merged.batches(2)
    shutil.copytree(uri, tmp_path / "copy")
    home.merged.batches(3)
    home.report()
    shutil.rmtree(uri)
    shutil.copytree(tmp_path / "copy", uri)
    home.report()
    assert home.versions() == [5, 2]
    assert home.reports()[-1].tags == {"dagster/data_version": "2"}


@pytest.mark.invariant("12.8")
def test_a_run_reports_the_commits_after_the_version_that_dagster_knows(home: Home) -> None:
    home.merged.batches(2)
    assert known_version(home.instance, MERGED, home.merged.ledger) == 2, "it was never reported: not the whole history"
    home.report()
    home.merged.batches(3)
    version = known_version(home.instance, MERGED, home.merged.ledger)
    assert [entry.version for entry in entries_of_run([], home.merged.ledger, version)] == [3, 4, 5]
    shutil.rmtree(home.settings.table_uri("temperatures"))
    new_table = home.create("temperatures")
    assert known_version(home.instance, MERGED, new_table.ledger) == new_table.ledger.version


@pytest.mark.invariant("12.8")
def test_a_version_that_a_run_reported_is_not_reported_again(home: Home) -> None:
    home.merged.batches(1)
    home.instance.report_runless_asset_event(dg.AssetMaterialization(MERGED, metadata={"table_version": 1}))
    home.report()
    assert home.versions() == [1]


@pytest.mark.invariant("12.8")
def test_a_table_that_an_unfinished_run_writes_is_reported_only_after_the_run(home: Home) -> None:
    run = create_run(home.instance, build_defs(), JOB, status=dg.DagsterRunStatus.STARTING)
    home.merged.batches(1)
    home.report()
    assert home.reports() == []
    home.instance.report_run_failed(run)
    home.report()
    assert home.versions() == [1]


@pytest.mark.invariant("7.7")
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
    home.merged.restore(2)
    home.report()
    assert home.check("batches_accounted") == [False, False, True, False], "the acceptance was undone too"


@pytest.mark.invariant("7.7")
def test_a_restore_can_undo_a_commit_that_does_not_add_up_and_bring_it_back(home: Home) -> None:
    home.merged.batches(1)
    wrong_version = home.merged.merge(1, 2)
    home.report()
    for version in (wrong_version - 1, wrong_version):
        home.merged.restore(version)
        home.merged.batches(1)
        home.report()
    assert home.check("batches_accounted") == [False, True, False]


@pytest.mark.invariant("12.8")
def test_every_table_of_the_declaration_is_reported(home: Home) -> None:
    home.merged.batches(1)
    other_tables = {spec.key: spec.key.path[-1] for spec in SPECS if spec.key != MERGED}
    for name in other_tables.values():
        home.create(name).merge(7, kind="derived")
    home.report()
    assert {key: home.versions(key) for key in other_tables} == {key: [1] for key in other_tables}
    assert home.reports(CHANGES)[0].metadata["rows_inserted"].value == 1


@pytest.mark.invariant("10.7", "12.8")
def test_maintenance_is_reported_and_does_not_change_the_data_version(home: Home) -> None:
    home.merged.batches(1)
    home.report()
    home.merged.merge_nothing("maintenance")
    home.report()
    assert home.versions() == [1, 2]
    assert [report.tags for report in home.reports()] == [{"dagster/data_version": "1"}] * 2


@pytest.mark.invariant("12.8")
def test_other_tables_are_reported_if_one_cannot_be_read(home: Home) -> None:
    home.merged.batches(1)
    home.create("temperatures_rejected").log_file(0).write_text("{")
    home.create("temperatures_changes").merge(7, kind="derived")
    home.report()
    assert home.versions() == [1]
    assert home.versions(CHANGES) == [1]
    assert home.reports(dg.AssetKey("temperatures_rejected")) == []


@pytest.mark.invariant("12.5")
def test_a_merge_by_the_command_line_ends_the_pause_after_a_failure(home: Home) -> None:
    home.merged.batches(1)
    failed_at = home.fail_a_run()
    home.report()
    assert reason_to_wait(home.instance, JOB, MERGED, failed_at + timedelta(seconds=10)), "it merged before the failure"
    home.merged.batches(1)
    home.report()
    assert reason_to_wait(home.instance, JOB, MERGED, failed_at + timedelta(seconds=10)) is None


@pytest.mark.invariant("12.5", "12.6")
def test_maintenance_does_not_end_a_pause_and_tables_still_count_as_behind(home: Home) -> None:
    rollup = home.create(ROLLUP.path[-1])
    home.merged.batches(1)
    rollup.merge(7, kind="derived")
    failed_at = home.fail_a_run()
    for table in (home.merged, rollup):
        table.merge_nothing("maintenance")
    home.report()
    assert home.versions() == home.versions(ROLLUP) == [2]
    assert reason_to_wait(home.instance, JOB, MERGED, failed_at + timedelta(seconds=10))
    assert keys_behind(home.instance, JOB, [MERGED, ROLLUP], failed_at + timedelta(seconds=10))


@pytest.mark.invariant("12.8")
def test_another_process_does_not_report_the_same_version_again(home: Home) -> None:
    home.merged.batches(1)
    home.report()
    home.reporter = CommitReporter(CATALOG_ENTRY)
    home.report()
    assert home.versions() == [1]


@pytest.mark.invariant("12.8")
def test_new_commits_are_reported_if_the_log_no_longer_has_the_reported_version(home: Home) -> None:
    home.merged.batches(2)
    home.report()
    home.merged.batches(4)
    home.merged.clean(before=5)
    for _ in range(2):
        home.report()
    assert home.versions() == [2, 6]


@pytest.mark.invariant("12.8")
def test_a_version_is_not_reported_again_if_its_log_file_is_cleaned_up(home: Home) -> None:
    home.merged.batches(2)
    home.report()
    home.merged.table.create_checkpoint()
    for version in range(3):
        home.merged.log_file(version).unlink()
    home.report()
    assert home.versions() == [2]


def test_a_tick_without_new_commits_reads_no_history_and_does_not_query_dagster(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.merged.batches(1)
    home.report()

    def fail_on_read(*_: object) -> None:
        raise AssertionError("something was read")

    monkeypatch.setattr(home.instance, "get_latest_materialization_event", fail_on_read)
    monkeypatch.setattr(automation, "merged_ledger", fail_on_read)
    monkeypatch.setattr(automation, "read_ledger", fail_on_read)
    home.report()
