"""The failed Dagster runs, read from its storage."""

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.cli.doctor import _failed_runs
from lakehouse.local import dagster_home
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import lakehouse_says

RecordRun = Callable[[str, dg.DagsterRunStatus], str]
FAILURE, SUCCESS = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of Dagster's folder in a home."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return tmp_path / "dagster"


@pytest.fixture(scope="module")
def empty_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a storage that Dagster created, which takes a second; no process has it open."""
    folder = tmp_path_factory.mktemp("dagster")
    (folder / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        assert instance.get_runs_count() == 0
    return folder


@pytest.fixture
def record_run(empty_storage: Path, folder: Path) -> Iterator[RecordRun]:
    """Record a finished run in a storage that Dagster created; return its id."""
    shutil.copytree(empty_storage, folder)
    with dg.DagsterInstance.from_config(str(folder)) as instance:

        def record(job: str, status: dg.DagsterRunStatus) -> str:
            return instance.add_run(dg.DagsterRun(job, status=status)).run_id

        yield record


def doctor_parts(folder: Path) -> list[tuple[str, str, str]]:
    """The parts that ``doctor`` shows for the runs of this home; none is broken."""
    parts = list(_failed_runs(Settings(home=folder.parent, _env_file=None)))
    assert {part.state for part in parts} <= {"note"}
    return [(part.part, part.version, part.detail) for part in parts]


def test_a_failed_run_is_listed_with_its_page_until_its_job_succeeds(folder: Path, record_run: RecordRun) -> None:
    record_run("merge_orders", FAILURE)
    record_run("merge_orders", SUCCESS)
    run_id = record_run("merge_other", FAILURE)
    ((part, run, detail),) = doctor_parts(folder)
    assert (part, run) == ("failed run", run_id[:8])
    assert detail.startswith("merge_other failed at 20")
    assert f"/runs/{run_id}" in detail
    record_run("merge_other", SUCCESS)
    assert doctor_parts(folder) == []


@pytest.mark.parametrize("job", ["__ASSET_JOB", "__ephemeral_asset_job__"])
def test_a_success_of_other_assets_does_not_hide_a_failure(job: str, folder: Path, record_run: RecordRun) -> None:
    run_id = record_run(job, FAILURE)
    record_run(job, SUCCESS)
    ((_, run, detail),) = doctor_parts(folder)
    assert run == run_id[:8]
    assert detail.startswith("A run of assets without a declared job failed at 20")


def test_a_failed_run_without_a_job_name_is_listed_as_one_without_a_declared_job(
    folder: Path, record_run: RecordRun
) -> None:
    run_id = record_run("merge_orders", FAILURE)
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute("UPDATE runs SET pipeline_name = NULL")
    ((_, run, detail),) = doctor_parts(folder)
    assert run == run_id[:8]
    assert detail.startswith("A run of assets without a declared job failed at 20")


def test_the_newest_runs_come_first_and_the_rest_are_counted(folder: Path, record_run: RecordRun) -> None:
    run_ids = [record_run("merge_orders", FAILURE) for _ in range(5)]
    parts = doctor_parts(folder)
    assert [run for _, run, _ in parts] == [*(run[:8] for run in run_ids[:1:-1]), ""]
    assert parts[-1][2] == "At least 2 more in the last day."


def test_a_failure_of_yesterday_is_not_listed(folder: Path, record_run: RecordRun) -> None:
    record_run("merge_orders", FAILURE)
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute("UPDATE runs SET end_time = ?", [time.time() - 25 * 3600])
    assert doctor_parts(folder) == []


def test_without_a_storage_no_run_is_listed_and_no_file_is_created(folder: Path) -> None:
    assert doctor_parts(folder) == []
    assert not folder.exists()


@pytest.mark.parametrize("in_use", [True, False])
def test_no_file_is_created_next_to_the_storage(in_use: bool, folder: Path, record_run: RecordRun) -> None:
    run_id = record_run("merge_orders", FAILURE)
    storage = folder / "history" / "runs.db"
    with closing(sqlite3.connect(storage)) as connection:
        connection.execute("SELECT count(*) FROM runs").fetchone()
        if not in_use:
            connection.close()
        before = sorted(storage.parent.iterdir())
        assert (storage.with_name("runs.db-wal") in before) is in_use
        assert [run for _, run, _ in doctor_parts(folder)] == [run_id[:8]]
        assert sorted(storage.parent.iterdir()) == before


def test_files_of_a_killed_process_next_to_the_storage_are_read_and_stay(folder: Path, record_run: RecordRun) -> None:
    storage = folder / "history" / "runs.db"
    with closing(sqlite3.connect(storage)) as connection:
        connection.execute("SELECT count(*) FROM runs").fetchone()
        run_id = record_run("merge_orders", FAILURE)
        contents = {file.name: file.read_bytes() for file in storage.parent.glob("runs.db*")}
    for name, content in contents.items():
        storage.with_name(name).write_bytes(content)
    assert [run for _, run, _ in doctor_parts(folder)] == [run_id[:8]]
    assert {file.name: file.read_bytes() for file in storage.parent.glob("runs.db*")} == contents


def test_doctor_changes_no_file(folder: Path, record_run: RecordRun, monkeypatch: pytest.MonkeyPatch) -> None:
    record_run("merge_orders", FAILURE)
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(folder.parent))
    before = read_folder(folder.parent)
    assert "merge_orders failed at" in " ".join(lakehouse_says("doctor").out.split())
    assert read_folder(folder.parent) == before


def read_folder(folder: Path) -> dict[Path, bytes | None]:
    """All paths in a folder, with the content of each file."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_dagster_home_of_an_unknown_user_does_not_fail_doctor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "~nosuch/x")
    ((part, _, detail),) = doctor_parts(folder)
    assert (part, "~nosuch" in detail) == ("failed runs", True)


@pytest.mark.parametrize("fault", ["ALTER TABLE runs DROP COLUMN end_time", "DROP TABLE runs"])
def test_an_older_storage_does_not_fail_doctor(fault: str, folder: Path, record_run: RecordRun) -> None:
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute(fault)
    ((part, _, detail),) = doctor_parts(folder)
    assert part == "failed runs"
    assert detail.startswith("Cannot be read now; Dagster's UI (lakehouse up) shows which runs failed: no such ")


def test_a_locked_or_damaged_storage_does_not_fail_doctor(
    folder: Path, record_run: RecordRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dagster_home, "_PATIENCE", 0.1)
    storage = folder / "history" / "runs.db"
    with closing(sqlite3.connect(storage)) as runs:
        runs.execute("PRAGMA journal_mode=DELETE")
        runs.execute("BEGIN EXCLUSIVE")
        assert "database is locked" in doctor_parts(folder)[0][2]
    storage.write_text("damaged " * 1000)
    assert "not a database" in doctor_parts(folder)[0][2]


@pytest.mark.parametrize("text", ["storage:\n  postgres: {}\n", "run_storage:\n  module: mine\n"])
def test_runs_in_another_storage_are_not_searched(text: str, folder: Path, record_run: RecordRun) -> None:
    record_run("merge_orders", FAILURE)
    with (folder / "dagster.yaml").open("a") as settings:
        settings.write(text)
    ((part, _, detail),) = doctor_parts(folder)
    assert part == "failed runs"
    assert detail.startswith(f"Not checked: {folder}/dagster.yaml names another storage; Dagster's UI")
