"""Which runs of Dagster failed, as its own storage tells."""

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.cli import main
from lakehouse.cli.doctor import _failed_runs
from lakehouse.local import failed_runs
from lakehouse.settings import Settings

End = Callable[[str, dg.DagsterRunStatus], str]
FAILURE, SUCCESS = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Dagster's folder of a home is."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return tmp_path / "dagster"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage that Dagster has made, which takes it a second; nobody has it open."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        assert instance.get_runs_count() == 0
    return folder


@pytest.fixture
def end(made: Path, folder: Path) -> Iterator[End]:
    """Note a run that has ended in a storage that Dagster has made; return its id."""
    shutil.copytree(made, folder)
    with dg.DagsterInstance.from_config(str(folder)) as instance:

        def note(job: str, status: dg.DagsterRunStatus) -> str:
            return instance.add_run(dg.DagsterRun(job, status=status)).run_id

        yield note


def parts(folder: Path) -> list[tuple[str, str, str]]:
    """What the doctor of this home says of them: no part of it is broken."""
    found = list(_failed_runs(Settings(home=folder.parent, _env_file=None)))
    assert {part.state for part in found} <= {"note"}
    return [(part.part, part.version, part.detail) for part in found]


def test_a_failed_run_is_named_with_its_page_until_its_job_succeeds(folder: Path, end: End) -> None:
    end("merge_orders", FAILURE)
    end("merge_orders", SUCCESS)
    failed = end("merge_other", FAILURE)
    ((part, run, detail),) = parts(folder)
    assert (part, run) == ("failed run", failed[:8])
    assert detail.startswith("merge_other failed at 20")
    assert f"/runs/{failed}" in detail
    end("merge_other", SUCCESS)
    assert parts(folder) == []


@pytest.mark.parametrize("job", ["__ASSET_JOB", "__ephemeral_asset_job__"])
def test_a_success_of_other_assets_does_not_hide_a_failure(job: str, folder: Path, end: End) -> None:
    failed = end(job, FAILURE)
    end(job, SUCCESS)
    ((_, run, detail),) = parts(folder)
    assert run == failed[:8]
    assert detail.startswith("A run of assets without a declared job failed at 20")


def test_a_failed_run_without_the_name_of_a_job_is_listed_as_one_without_a_declared_job(folder: Path, end: End) -> None:
    failed = end("merge_orders", FAILURE)
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute("UPDATE runs SET pipeline_name = NULL")
    ((_, run, detail),) = parts(folder)
    assert run == failed[:8]
    assert detail.startswith("A run of assets without a declared job failed at 20")


def test_the_newest_come_first_and_the_others_are_counted(folder: Path, end: End) -> None:
    failed = [end("merge_orders", FAILURE) for _ in range(5)]
    found = parts(folder)
    assert [run for _, run, _ in found] == [*(run[:8] for run in failed[:1:-1]), ""]
    assert found[-1][2] == "At least 2 more in the last day."


def test_a_failure_of_yesterday_is_not_listed(folder: Path, end: End) -> None:
    end("merge_orders", FAILURE)
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute("UPDATE runs SET end_time = ?", [time.time() - 25 * 3600])
    assert parts(folder) == []


def test_where_dagster_has_no_storage_there_is_nothing_to_tell_and_nothing_is_made(folder: Path) -> None:
    assert parts(folder) == []
    assert not folder.exists()


@pytest.mark.parametrize("in_use", [True, False])
def test_no_file_is_made_beside_the_storage(in_use: bool, folder: Path, end: End) -> None:
    failed = end("merge_orders", FAILURE)
    storage = folder / "history" / "runs.db"
    with closing(sqlite3.connect(storage)) as user:
        user.execute("SELECT count(*) FROM runs").fetchone()
        if not in_use:
            user.close()
        before = sorted(storage.parent.iterdir())
        assert (storage.with_name("runs.db-wal") in before) is in_use
        assert [run for _, run, _ in parts(folder)] == [failed[:8]]
        assert sorted(storage.parent.iterdir()) == before


def test_what_a_process_that_was_killed_left_beside_the_storage_is_read_and_stays(folder: Path, end: End) -> None:
    storage = folder / "history" / "runs.db"
    with closing(sqlite3.connect(storage)) as user:
        user.execute("SELECT count(*) FROM runs").fetchone()
        failed = end("merge_orders", FAILURE)
        left = {each.name: each.read_bytes() for each in storage.parent.glob("runs.db*")}
    for name, content in left.items():
        storage.with_name(name).write_bytes(content)
    assert [run for _, run, _ in parts(folder)] == [failed[:8]]
    assert {each.name: each.read_bytes() for each in storage.parent.glob("runs.db*")} == left


def test_doctor_changes_no_file(
    folder: Path, end: End, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    end("merge_orders", FAILURE)
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(folder.parent))
    before = contents(folder.parent)
    main.run(["doctor"])
    assert "merge_orders failed at" in " ".join(capsys.readouterr().out.split())
    assert contents(folder.parent) == before


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Everything in a folder; of a file what it holds."""
    return {each: each.read_bytes() if each.is_file() else None for each in folder.rglob("*")}


def test_a_home_of_dagster_of_no_known_user_does_not_fail_the_doctor(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "~nosuch/x")
    ((part, _, detail),) = parts(folder)
    assert (part, "~nosuch" in detail) == ("failed runs", True)


@pytest.mark.parametrize("fault", ["ALTER TABLE runs DROP COLUMN end_time", "DROP TABLE runs"])
def test_an_older_storage_does_not_fail_the_doctor(fault: str, folder: Path, end: End) -> None:
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute(fault)
    ((part, _, detail),) = parts(folder)
    assert part == "failed runs"
    assert detail.startswith("Cannot be read now; Dagster's UI (lakehouse up) shows which runs failed: no such ")


def test_a_locked_or_damaged_storage_does_not_fail_the_doctor(
    folder: Path, end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_runs, "_PATIENCE", 0.1)
    storage = folder / "history" / "runs.db"
    with closing(sqlite3.connect(storage)) as runs:
        runs.execute("PRAGMA journal_mode=DELETE")
        runs.execute("BEGIN EXCLUSIVE")
        assert "database is locked" in parts(folder)[0][2]
    storage.write_text("damaged " * 1000)
    assert "not a database" in parts(folder)[0][2]


@pytest.mark.parametrize("named", ["storage:\n  postgres: {}\n", "run_storage:\n  module: mine\n"])
def test_runs_in_another_storage_are_not_looked_for(named: str, folder: Path, end: End) -> None:
    end("merge_orders", FAILURE)
    with (folder / "dagster.yaml").open("a") as settings:
        settings.write(named)
    ((part, _, detail),) = parts(folder)
    assert part == "failed runs"
    assert detail.startswith(f"Not checked: {folder}/dagster.yaml names another storage; Dagster's UI")
