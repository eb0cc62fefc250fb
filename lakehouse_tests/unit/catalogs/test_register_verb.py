"""``lakehouse register``: what it registers without names, and how it reports failures."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli import main
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import lakehouse_says
from lakehouse_tests.helpers.declaration_files import declare
from lakehouse_tests.helpers.tables.exported import append, day

DECLARATIONS = """
from lakehouse import Column, StreamTable, View

sales = StreamTable(
    name="sales", topic="sales", doc="Sales.", columns=[Column("id", "STRING", required=True, doc="Id.")], key=["id"]
)
view = View("all_sales", sql="SELECT id FROM sales", doc="Ids.", materialized=True)
"""


@pytest.fixture
def settings(aws: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A project with four tables, of which two are empty."""
    declare(tmp_path, monkeypatch, sales=DECLARATIONS)
    monkeypatch.setenv("LAKEHOUSE_CATALOG", "glue://eu-central-1/lake")
    settings = Settings.load()
    for name in ("sales", "sales_rejected", "all_sales"):
        append(settings, ("a", 1.0, day(1)), name=name)
    return settings


def outcomes(*arguments: str) -> dict[str, str]:
    result = lakehouse_says("register", "--json", *arguments)
    return {table["table"]: table["outcome"] for table in json.loads(result.out)}


@pytest.mark.usefixtures("settings")
def test_without_names_every_table_with_rows_for_readers_is_registered() -> None:
    assert outcomes("--check") == {"sales": "differs", "all_sales": "differs"}
    assert lakehouse_says("register", "--check").code == main.FAILED
    assert outcomes() == {"sales": "created", "all_sales": "created"}
    assert outcomes("sales_rejected") == {"sales_rejected": "created"}
    assert outcomes("--check") == {"sales": "unchanged", "all_sales": "unchanged"}
    result = lakehouse_says("register", "--check")
    assert result.code == main.DONE
    assert "sales       unchanged" in result.out


def test_a_failure_comes_after_the_other_tables(settings: Settings, aws: Any) -> None:
    aws.create_table(DatabaseName="lake", TableInput={"Name": "all_sales"})
    result = lakehouse_says("register")
    assert (result.code, "sales   created" in result.out) == (main.FAILED, True)
    assert "has a table all_sales that lakehouse did not register" in result.err
    result = lakehouse_says("register", "sales_changes", "all_sales")
    assert (result.code, "2 registrations failed: sales_changes does not exist" in result.err) == (1, True)
    assert lakehouse_says("register", "sale").code == main.WRONG_USE


def test_a_catalog_that_is_away_is_one_error(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_CATALOG", "unity+http://127.0.0.1:1/main.lake")
    result = lakehouse_says("register")
    assert (result.code, result.err.count("Unity Catalog cannot be reached")) == (main.FAILED, 1)
