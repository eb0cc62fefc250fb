"""``lakehouse plan --quick``: without Spark and broker, and with an exit code for scripts."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import lakehouse_says, read_json_output


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))


def test_tables_that_do_not_exist_are_created() -> None:
    changes = read_json_output("plan", "temperatures", "--quick")["changes"]
    assert {change["kind"] for change in changes} == {"create"}
    assert [change["table"] for change in changes][:2] == ["temperatures", "temperatures_rejected"]


def test_a_table_that_does_not_match_its_declaration_is_refused_with_advice() -> None:
    DeltaTable.create(Settings.load().table_uri("temperatures"), pa.schema([("latitude", pa.string())]))
    result = lakehouse_says("plan", "--quick", "--json")
    (refused_change,) = [change for change in json.loads(result.out)["changes"] if change["kind"] == "refuse"]
    assert (result.code, refused_change["table"]) == (1, "temperatures")
    detail = "Column latitude of temperatures is string in the table and decimal(9,6) in its declaration"
    assert detail in refused_change["detail"]
    result = lakehouse_says("plan", "--quick")
    assert result.code == 1 and "refuse" in result.out
