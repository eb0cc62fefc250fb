"""The page of the public names: it leaves none out, and its examples, as those of the README, run and are typed."""

import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
from mypy import api

import lakehouse
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED = re.findall(r"```\n(.*?)```", re.sub(r"```python\n.*?```", "", PAGE, flags=re.DOTALL), re.DOTALL)
DECLARED, BESIDE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
NAMED = {name for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}


def test_every_public_name_is_in_the_tables_of_the_page_and_no_other() -> None:
    assert set(lakehouse.__all__) == NAMED


def test_the_examples_of_the_page_run_one_after_the_other_and_print_what_it_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    said: dict[str, Any] = {"__name__": "orders", "__file__": str(tmp_path / "orders.py")}
    printed = []
    for example in EXAMPLES:
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(example, "docs/python.md", "exec"), said)  # noqa: S102 - the page's own examples
        printed.append(out.getvalue())
    tables = f"temperatures {tmp_path / '.lakehouse' / 'tables' / 'temperatures'}\n"
    assert [each for each in printed if each] == [*PRINTED, tables]
    specs = {spec.key: spec for spec in said["defs"].resolve_all_asset_specs()}
    orders = specs[dg.AssetKey(["sales", "raw", "orders"])]
    assert (orders.group_name, *orders.owners) == ("sales", "team:sales")
    assert [dep.asset_key for dep in specs[dg.AssetKey("turnover")].deps] == [
        dg.AssetKey(["sales", "raw", "orders_by_city"])
    ]
    assert said["defs"].resources["lakehouse"].spark_config == {"spark.sql.shuffle.partitions": "8"}


def test_the_examples_of_the_readme_run(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tables.prices")
    module.__file__ = "prices.py"
    exec(DECLARED, vars(module))  # noqa: S102 - our own text
    monkeypatch.setitem(sys.modules, "tables", ModuleType("tables"))
    monkeypatch.setitem(sys.modules, "tables.prices", module)
    said: dict[str, Any] = {}
    exec(BESIDE, said)  # noqa: S102 - our own text
    specs = list(said["defs"].resolve_all_asset_specs())
    assert dg.AssetKey(["sales", "prices_by_shop"]) in {spec.key for spec in specs}
    assert {(spec.group_name, *spec.owners) for spec in specs} == {("sales", "team:sales")}


@pytest.mark.slow
def test_a_strict_type_checker_finds_nothing_in_the_examples_of_page_and_readme(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = {
        "page.py": "\n".join(EXAMPLES),
        "tables/__init__.py": "",
        "tables/prices.py": DECLARED,
        "definitions.py": BESIDE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    kept = request.config.cache.mkdir("mypy") if request.config.cache else tmp_path / "cache"
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={kept}"]
    deepest = sys.getrecursionlimit()
    try:
        found, failed, code = api.run([*options, *(str(tmp_path / name) for name in files)])
    finally:
        sys.setrecursionlimit(deepest)  # which the checker raises
    assert (code, failed) == (0, ""), found
