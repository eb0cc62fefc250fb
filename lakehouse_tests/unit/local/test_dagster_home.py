"""Dagster's folder and its storage."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.run_coordinator import QueuedRunCoordinator

from lakehouse.errors import SetupError
from lakehouse.local.dagster_home import migrate_dagster_storage, prepare_dagster_home
from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import ROOT


def test_dagster_home_is_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_page_for_an_existing_dagster_ends_runs_as_ours_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
    (block,) = (text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "run_monitoring" in text)
    (tmp_path / "dagster.yaml").write_text(block)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_start_timeout_seconds == 180
        assert instance.get_settings("run_monitoring")["free_slots_after_run_end_seconds"] == 30


def test_dagster_home_overrides_the_default_and_keeps_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    assert prepare_dagster_home(Settings(home=tmp_path, _env_file=None)) == folder
    assert (folder / "dagster.yaml").read_text() == "telemetry:\n  enabled: false\n"


@pytest.mark.slow
def test_dagster_yaml_is_written_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a partial file, Dagster would not know that a table has one writer."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    text = prepare_dagster_home(Settings(home=tmp_path / "whole", _env_file=None)).joinpath("dagster.yaml").read_text()

    def read(folder: Path) -> str:
        return (prepare_dagster_home(Settings(home=folder, _env_file=None)) / "dagster.yaml").read_text()

    with ThreadPoolExecutor(4) as threads:
        for number in range(200):
            folder = tmp_path / str(number)
            (folder / "dagster").mkdir(parents=True)
            assert set(threads.map(read, [folder] * 4)) == {text}
            assert [file.name for file in (folder / "dagster").iterdir()] == ["dagster.yaml"]


def test_a_storage_that_cannot_be_opened_is_reported_with_the_log_of_dagster(
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
