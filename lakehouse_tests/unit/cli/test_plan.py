"""``lakehouse plan --quick``: without Spark and broker, and with an exit code that a script can ask."""

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


def test_where_there_is_no_table_each_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "temperatures", "--quick", "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert {each["kind"] for each in changes} == {"create"}
    assert [each["table"] for each in changes][:2] == ["temperatures", "temperatures_rejected"]


def test_a_table_that_does_not_fit_is_refused_with_the_way_on(capsys: pytest.CaptureFixture[str]) -> None:
    DeltaTable.create(Settings.load().table_uri("temperatures"), pa.schema([("latitude", pa.string())]))
    assert run(["plan", "--quick", "--json"]) == 1
    refused = [each for each in json.loads(capsys.readouterr().out)["changes"] if each["kind"] == "refuse"]
    assert [each["table"] for each in refused] == ["temperatures"]
    assert (
        "Column latitude of temperatures is string in the table and decimal(9,6) in its declaration"
        in refused[0]["detail"]
    )
    assert run(["plan", "--quick"]) == 1
    assert "refuse" in capsys.readouterr().out
