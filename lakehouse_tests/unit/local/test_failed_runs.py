"""Which runs of Dagster failed, as its own storage tells."""

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse.cli import main
from lakehouse.cli.doctor import _failed_runs
from lakehouse.local import failed_runs
from lakehouse.settings import Settings

End = Callable[..., str]
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

        def note(job: str, status: dg.DagsterRunStatus, *steps: str, root: str | None = None, **options: Any) -> str:
            options |= {"step_keys_to_execute": [*steps] or None, "root_run_id": root, "parent_run_id": root}
            return instance.add_run(dg.DagsterRun(job, status=status, **options)).run_id

        yield note


def parts(folder: Path) -> list[tuple[str, str, str]]:
    """What the doctor of this home says of them: no part of it is broken."""
    found = list(_failed_runs(Settings(home=folder.parent, _env_file=None)))
    assert {part.state for part in found} <= {"note"}
    return [(part.part, part.version, part.detail) for part in found]


def test_a_job_whose_newest_run_failed_is_named_with_its_run_and_the_page(folder: Path, end: End) -> None:
    end("merge_orders", FAILURE)
    end("merge_orders", SUCCESS)
    end("merge_other", FAILURE)
    end("merge_other", SUCCESS)
    end("merge_orders", FAILURE)
    newest = end("merge_orders", FAILURE)
    ((part, run, detail),) = parts(folder)
    assert (part, run) == ("failed run", newest[:8])
    assert detail.startswith("merge_orders failed at 20")
    assert f" UTC, 2 times in a row: /runs/{newest} of Dagster's page" in detail
    assert detail.endswith("told until a run of merge_orders succeeds, for a week at most.")


def test_a_run_that_nobody_declared_is_made_good_by_one_over_the_same_alone(folder: Path, end: End) -> None:
    end("__ASSET_JOB", FAILURE, "orders")
    left = end("__ASSET_JOB", FAILURE, "others")
    end("__ASSET_JOB", SUCCESS, "orders")
    assert [run for _, run, _ in parts(folder)] == [left[:8]]


def test_a_run_over_more_makes_good_one_over_less(folder: Path, end: End) -> None:
    end("__ASSET_JOB", FAILURE, "orders")
    left = end("__ASSET_JOB", FAILURE, "orders", "others")
    end("__ASSET_JOB", SUCCESS, "orders", "another")
    assert [run for _, run, _ in parts(folder)] == [left[:8]]


def test_a_run_again_from_the_failed_step_makes_good_the_run_it_goes_back_to(folder: Path, end: End) -> None:
    first = end("__ASSET_JOB", FAILURE, "orders", "others")
    again = end("__ASSET_JOB", FAILURE, "others", root=first)
    ((_, run, detail),) = parts(folder)
    assert (run, "2 times in a row" in detail) == (again[:8], True)
    end("__ASSET_JOB", SUCCESS, "others", root=first)
    assert parts(folder) == []


def test_a_run_that_nobody_declared_is_named_by_its_assets_or_else_its_steps(folder: Path, end: End) -> None:
    end("__ASSET_JOB", FAILURE, "lake__d")
    chosen = frozenset(map(dg.AssetKey, (["lake", "c"], ["b"], ["a"], ["e"])))
    end("__ASSET_JOB", FAILURE, asset_selection=chosen)
    assert [detail.split(" failed at ")[0] for _, _, detail in parts(folder)] == ["a, b, e and 1 more", "lake__d"]
    end("__ASSET_JOB", SUCCESS, "a", "b", "lake__c", "lake__d", "e")
    assert parts(folder) == []


def test_many_successes_of_others_do_not_hide_a_failure(
    folder: Path, end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_runs, "_LOOKED_AT", 3)
    failed = [end("verify_orders", FAILURE), end("__ASSET_JOB", FAILURE, "orders")]
    for _ in range(5):
        end("merge_orders", FAILURE)
        end("merge_orders", SUCCESS)
        end("__ASSET_JOB", SUCCESS, "others")
    assert [run for _, run, _ in parts(folder)] == [failed[1][:8], failed[0][:8]]


def test_the_newest_are_told_first_and_no_more_than_a_few(folder: Path, end: End) -> None:
    failed = [end(f"merge_{number}", FAILURE) for number in range(5)]
    told = parts(folder)
    assert [run for _, run, _ in told] == [*(run[:8] for run in failed[:1:-1]), ""]
    assert told[-1][2] == "2 more: merge_1, merge_0"


def test_a_failure_of_long_ago_is_told_no_more(folder: Path, end: End) -> None:
    end("merge_orders", FAILURE)
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute("UPDATE runs SET end_time = ?", [time.time() - 8 * 24 * 3600])
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


@pytest.mark.parametrize(
    "fault",
    [
        "end_time = NULL, update_timestamp = NULL",
        "end_time = strftime('%s') * 1000",
        "end_time = 1e300",
        "end_time = 'today'",
        "pipeline_name = NULL",
        "pipeline_name = x'00'",
        "run_id = NULL",
    ],
)
def test_a_run_of_which_the_storage_tells_nothing_known_is_passed_over(fault: str, folder: Path, end: End) -> None:
    named = end("merge_others", FAILURE)
    end("merge_orders", FAILURE)
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute(f"UPDATE runs SET {fault} WHERE pipeline_name = 'merge_orders'")
    assert [run for _, run, _ in parts(folder)] == [named[:8]]


@pytest.mark.parametrize("body", [None, "", "[" * 100_000, "7", '{"asset_selection": [7], "root_run_id": []}'])
def test_a_run_whose_body_cannot_be_read_is_named_by_its_job(body: str | None, folder: Path, end: End) -> None:
    end("__ASSET_JOB", FAILURE, "orders")
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute("UPDATE runs SET run_body = ?", [body])
    ((_, _, detail),) = parts(folder)
    assert detail.startswith("__ASSET_JOB failed at ")


def test_a_home_of_dagster_of_no_known_user_does_not_fail_the_doctor(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "~nosuch/x")
    ((part, _, detail),) = parts(folder)
    assert (part, "~nosuch" in detail) == ("Dagster's runs", True)


@pytest.mark.parametrize("fault", ["ALTER TABLE runs DROP COLUMN end_time", "DROP TABLE runs"])
def test_an_older_storage_does_not_fail_the_doctor(fault: str, folder: Path, end: End) -> None:
    with closing(sqlite3.connect(folder / "history" / "runs.db")) as runs, runs:
        runs.execute(fault)
    ((part, _, detail),) = parts(folder)
    assert part == "Dagster's runs"
    assert detail.startswith("Cannot be read now: no such ")


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
    assert part == "Dagster's runs"
    assert detail.startswith(f"Not looked for: {folder}/dagster.yaml names another storage; Dagster's page")
