"""Dagster's folder and its storage."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.run_coordinator import QueuedRunCoordinator

from lakehouse.errors import SetupError
from lakehouse.local.dagster_home import migrate_dagster_storage, prepare_dagster_home
from lakehouse.settings import Settings


def test_dagster_gets_a_home_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    folder = prepare_dagster_home(Settings(home=tmp_path, _env_file=None))
    assert folder == tmp_path / "dagster"
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    with dg.DagsterInstance.get() as instance:
        assert not instance.telemetry_enabled
        pools = instance.get_concurrency_config().pool_config
        assert (pools.default_pool_limit, pools.pool_granularity.value) == (1, "op")
        assert isinstance(instance.run_coordinator, QueuedRunCoordinator)
        assert instance.run_coordinator.dequeue_interval_seconds == 1
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 2


def test_a_home_chosen_by_its_own_variable_wins_and_keeps_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setenv("DAGSTER_HOME", str(mine))
    assert prepare_dagster_home(Settings(home=tmp_path, _env_file=None)) == mine
    assert (mine / "dagster.yaml").read_text() == "telemetry:\n  enabled: false\n"


@pytest.mark.slow
def test_settings_that_are_being_written_are_never_read_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them, Dagster would not know that a table has one writer."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    whole = prepare_dagster_home(Settings(home=tmp_path / "whole", _env_file=None)).joinpath("dagster.yaml").read_text()

    def read(folder: Path) -> str:
        return (prepare_dagster_home(Settings(home=folder, _env_file=None)) / "dagster.yaml").read_text()

    with ThreadPoolExecutor(4) as threads:
        for number in range(200):
            folder = tmp_path / str(number)
            (folder / "dagster").mkdir(parents=True)
            assert set(threads.map(read, [folder] * 4)) == {whole}
            assert [file.name for file in (folder / "dagster").iterdir()] == ["dagster.yaml"]


def test_a_storage_that_cannot_be_opened_is_one_sentence_with_what_dagster_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    settings = Settings(home=tmp_path, _env_file=None)
    file = prepare_dagster_home(settings) / "dagster.yaml"
    file.write_text(f"storage:\n  sqlite:\n    base_dir: {file}\n", encoding="utf-8")
    with pytest.raises(SetupError, match="storage cannot be opened") as failure:
        migrate_dagster_storage(settings)
    log = tmp_path / "logs" / "lakehouse" / "dagster-storage.log"
    assert failure.value.where == str(log)
    assert str(file) in failure.value.action
    assert "FileExistsError" in log.read_text() or "NotADirectoryError" in log.read_text()
