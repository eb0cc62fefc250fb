"""A Dagster run in its own process."""

from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.local.dagster_home import materialize
from lakehouse.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    return Settings(home=tmp_path, kafka_bootstrap_servers="127.0.0.1:1", _env_file=None)


def test_a_failed_run_names_its_cause_and_its_log(settings: Settings, tmp_path: Path) -> None:
    steps: list[str] = []
    with pytest.raises(LakehouseError) as error_info:
        materialize(settings, ["temperatures", "temperatures_rejected"], {}, lambda name, _: steps.append(name))
    assert "127.0.0.1:1" in error_info.value.what
    assert error_info.value.where == str(tmp_path / "logs" / "lakehouse" / "runs.log")
    assert "temperatures" in (tmp_path / "logs" / "lakehouse" / "runs.log").read_text()
    assert steps == []


def test_an_asset_that_does_not_exist_is_an_error(settings: Settings) -> None:
    with pytest.raises(LakehouseError, match="The Dagster run failed"):
        materialize(settings, ["rain"], {}, lambda *_: None)
