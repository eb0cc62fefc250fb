"""A run of Dagster as a process of its own."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError, SetupError
from lakehouse.local.dagster_home import migrate_dagster_storage, prepare_dagster_home
from lakehouse.local.dagster_run import materialize
from lakehouse.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    return Settings(home=tmp_path, kafka_bootstrap_servers="127.0.0.1:1", _env_file=None)


def test_a_run_that_fails_tells_its_cause_and_its_log(settings: Settings, tmp_path: Path) -> None:
    steps: list[str] = []
    with pytest.raises(LakehouseError) as failure:
        materialize(settings, ["temperatures", "temperatures_rejected"], {}, lambda name, _: steps.append(name))
    assert "127.0.0.1:1" in failure.value.what
    assert failure.value.where == str(tmp_path / "logs" / "runs.log")
    assert "temperatures" in (tmp_path / "logs" / "runs.log").read_text()
    assert steps == []


def test_an_asset_that_does_not_exist_is_an_error(settings: Settings) -> None:
    with pytest.raises(LakehouseError, match="The run of Dagster failed"):
        materialize(settings, ["rain"], {}, lambda *_: None)


def test_processes_that_start_at_once_on_a_fresh_home_all_find_the_storage(settings: Settings, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(migrate_dagster_storage, [settings] * 4))
    assert (tmp_path / "dagster" / "history" / "runs.db").stat().st_size > 0
    migrate_dagster_storage(settings)


def test_a_storage_that_cannot_be_opened_is_one_sentence_without_its_password(
    settings: Settings, tmp_path: Path
) -> None:
    url = "postgresql://dagster:marker-of-a-secret@127.0.0.1:1/dagster"
    file = prepare_dagster_home(settings) / "dagster.yaml"
    file.write_text(f"storage:\n  postgres:\n    postgres_url: {url}\n", encoding="utf-8")
    with pytest.raises(SetupError, match="storage cannot be opened") as failure:
        migrate_dagster_storage(settings)
    assert str(file) in failure.value.action
    log = (tmp_path / "logs" / "dagster-storage.log").read_text()
    assert failure.value.where == str(tmp_path / "logs" / "dagster-storage.log")
    assert "Error" in log
    assert "marker-of-a-secret" not in log + str(failure.value)
