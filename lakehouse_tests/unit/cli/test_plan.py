"""``lakehouse plan --quick``: without Spark and broker, and with an exit code for scripts."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.cli.main import run
from lakehouse.settings import Settings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))


def test_tables_that_do_not_exist_are_created(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "temperatures", "--quick", "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert {change["kind"] for change in changes} == {"create"}
    assert [change["table"] for change in changes][:2] == ["temperatures", "temperatures_rejected"]


def test_a_table_that_does_not_match_its_declaration_is_refused_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    DeltaTable.create(Settings.load().table_uri("temperatures"), pa.schema([("latitude", pa.string())]))
    assert run(["plan", "--quick", "--json"]) == 1
    refused_changes = [
        change for change in json.loads(capsys.readouterr().out)["changes"] if change["kind"] == "refuse"
    ]
    assert [change["table"] for change in refused_changes] == ["temperatures"]
    assert (
        "Column latitude of temperatures is string in the table and decimal(9,6) in its declaration"
        in refused_changes[0]["detail"]
    )
    assert run(["plan", "--quick"]) == 1
    assert "refuse" in capsys.readouterr().out
