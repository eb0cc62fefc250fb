"""The public names, and the page about them: it is complete; its examples and those of the README run and are typed."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from mypy import api

import lakehouse
from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED_TEXTS = re.findall(r"```\n(.*?)```", re.sub(r"```python\n.*?```", "", PAGE, flags=re.DOTALL), re.DOTALL)
DECLARATION, OWN_ASSET = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
DOCUMENTED_NAMES = {
    name for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
}


def test_the_tables_of_the_page_list_exactly_the_public_names() -> None:
    assert set(lakehouse.__all__) == DOCUMENTED_NAMES


def test_the_examples_of_the_page_run_in_order_and_print_the_documented_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "orders", "__file__": str(tmp_path / "orders.py")}
    outputs = run_examples("python.md", EXAMPLES, namespace)
    tables = f"temperatures {tmp_path / '.lakehouse' / 'tables' / 'temperatures'}\n"
    assert [output for output in outputs if output] == [*PRINTED_TEXTS, tables]
    specs = {spec.key: spec for spec in namespace["defs"].resolve_all_asset_specs()}
    orders = specs[dg.AssetKey(["sales", "raw", "orders"])]
    assert (orders.group_name, *orders.owners) == ("sales", "team:sales")
    assert [dep.asset_key for dep in specs[dg.AssetKey("turnover")].deps] == [
        dg.AssetKey(["sales", "raw", "orders_by_city"])
    ]
    assert namespace["defs"].resources["lakehouse"].spark_config == {"spark.sql.shuffle.partitions": "8"}


@pytest.mark.slow
def test_a_strict_type_checker_finds_nothing_in_the_examples_of_page_and_readme(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = {
        "page.py": "\n".join(EXAMPLES),
        "my_lake/__init__.py": "",
        "my_lake/tables/__init__.py": "",
        "my_lake/tables/prices.py": DECLARATION,
        "my_lake/defs/price_report.py": OWN_ASSET,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    cache = request.config.cache.mkdir("mypy") if request.config.cache else tmp_path / "cache"
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={cache}"]
    recursion_limit = sys.getrecursionlimit()
    try:
        output, errors, code = api.run([*options, *(str(tmp_path / name) for name in files)])
    finally:
        sys.setrecursionlimit(recursion_limit)  # the checker raises it
    assert (code, errors) == (0, ""), output


@pytest.mark.parametrize("name", lakehouse.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(lakehouse, name).__name__ == name


def test_dir_lists_the_public_names() -> None:
    assert {*lakehouse.__all__} <= {*dir(lakehouse)}


def test_an_unknown_name_raises_an_attribute_error() -> None:
    misspelled = "Colum"
    with pytest.raises(AttributeError, match=f"module 'lakehouse' has no attribute '{misspelled}'"):
        _ = getattr(lakehouse, misspelled)


def test_importing_the_package_and_declaring_a_table_imports_neither_spark_nor_dagster() -> None:
    program = """
import sys
import lakehouse
assert not [name for name in sys.modules if name.startswith("lakehouse.")]
from lakehouse import Column, StreamTable
StreamTable("orders", "orders", "", [Column("id", "INT", "", required=True)], ["id"])
assert not {"pyspark", "dagster", "deltalake", "duckdb", "aiokafka", "fastavro"} & {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", program], check=True)
