"""Which runs of Dagster failed, as its own storage tells."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

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


@pytest.fixture
def end(folder: Path) -> Iterator[End]:
    """Note a run that has ended in a storage that Dagster has made; return its id."""
    folder.mkdir()
    (folder / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with dg.DagsterInstance.from_config(str(folder)) as instance:

        def note(job: str, status: dg.DagsterRunStatus, *steps: str) -> str:
            run = dg.DagsterRun(job, status=status, step_keys_to_execute=[*steps] or None)
            return instance.add_run(run).run_id

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
    assert f" UTC, 2 times since it succeeded: /runs/{newest} of Dagster's page" in detail


def test_a_run_that_nobody_declared_is_made_good_by_one_over_the_same_alone(folder: Path, end: End) -> None:
    end("__ASSET_JOB", FAILURE, "orders")
    left = end("__ASSET_JOB", FAILURE, "others")
    end("__ASSET_JOB", SUCCESS, "orders")
    assert [run for _, run, _ in parts(folder)] == [left[:8]]


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
    assert [detail for _, _, detail in parts(folder)] == ["In a storage that dagster.yaml names (not tried)."]
