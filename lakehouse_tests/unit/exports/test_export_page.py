"""The page about exports: its declarations are accepted, and its readers read what the table has."""

import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import Export
from lakehouse.defs.followers import TICK_INTERVAL
from lakehouse.discovery import sort_outlets
from lakehouse.exports.attempts import MEMORY
from lakehouse.exports.exporter import Exporter
from lakehouse.exports.files import _MAX_ROWS
from lakehouse.exports.manifests import Manifest
from lakehouse.settings import Settings
from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge

PAGE = (ROOT / "docs" / "how-to" / "export.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    names: dict[str, Any] = {"__file__": "sales.py"}
    run_examples("export.md", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), names)
    return names


def test_the_exports_of_the_page_fit_to_their_table(names: dict[str, Any]) -> None:
    exports = [names["daily_sales"], names["sales_changed"]]
    assert sort_outlets(exports, [names["sales"]], []) == tuple(exports)


def test_the_readers_of_the_page_follow_the_table(names: dict[str, Any], tmp_path: Path) -> None:
    settings, rows = Settings(home=tmp_path, sync=False), dict[str, Any]()
    daily_sales, changed = (Exporter(settings, names[name]) for name in ("daily_sales", "sales_changed"))
    append(settings, ("a", 1.0, day(1)), ("b", 2.0, day(1)), ("c", 3.0, None))
    for exporter in (daily_sales, changed):
        exporter.update()
    assert names["count_by_day"](daily_sales.folder) == [(day(1).date(), 2), (None, 1)]
    last_version = names["follow"](changed.folder, rows, 0)
    assert {name: row["price"] for name, row in rows.items()} == {"a": 1.0, "b": 2.0, "c": 3.0}
    merge(settings, ("a", 1.5, day(1)), ("d", 4.0, day(2)))
    delete(settings, "id = 'b'")
    changed.update()
    last_version = names["follow"](changed.folder, rows, last_version)
    assert ({name: row["price"] for name, row in rows.items()}, last_version) == ({"a": 1.5, "c": 3.0, "d": 4.0}, 2)
    delete(settings, "id = 'c'")
    changed.update(whole=True)
    assert names["follow"](changed.folder, rows, last_version) == 3
    assert sorted(rows) == ["a", "d"]
    assert names["follow"](changed.folder, {}, 0) == 3
    shutil.rmtree(changed.folder)  # a lost folder: the versions begin with 1 again
    delete(settings, "id = 'd'")
    changed.update()
    assert names["follow"](changed.folder, rows, 3) == 1
    assert sorted(rows) == ["a"]


def test_the_page_names_every_option_and_every_field() -> None:
    options = {field.name for field in fields(Export)} - {"name", "file"}
    assert [name for name in options if f"`{name}`" not in PAGE.split("## Read the files")[0]] == []
    assert [name for name in Manifest.model_fields if f"`{name}`" not in PAGE] == []


def test_the_figures_of_the_page_are_those_of_the_code() -> None:
    assert f"About every {TICK_INTERVAL} seconds" in PAGE
    assert ("one gigabyte" in PAGE, MEMORY) == (True, "1GB")
    assert ("at most one million rows" in PAGE, _MAX_ROWS) == (True, 1_000_000)
