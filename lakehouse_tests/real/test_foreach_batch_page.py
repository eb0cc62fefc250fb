"""The page about streaming queries: its example feeds the table of the README."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse import StreamTable, read
from lakehouse.ingest.batches import merge_all
from lakehouse.kafka import create_topic
from lakehouse.ledger.audit import audit
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.settings.spark_conf import DELTA
from lakehouse.spark.own_session import is_classic
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import send
from lakehouse_tests.helpers.pages import read_steps
from lakehouse_tests.helpers.places import ROOT

PAGE = ROOT / "docs" / "how-to" / "foreach-batch.md"
EXAMPLE, CONF, DECLARATION, APPEND = (step.text for step in read_steps(PAGE))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StreamTable:
    """The table of the README, as a module of the project ``my_lake``."""
    names: dict[str, Any] = {"__name__": "my_lake.tables.prices", "__file__": str(tmp_path / "prices.py")}
    exec(re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0], names)  # noqa: S102 - the README's own example
    for name in ("my_lake", "my_lake.tables", "my_lake.tables.prices"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["my_lake.tables.prices"], "prices", names["prices"], raising=False)
    table: StreamTable = names["prices"]
    return table


def test_the_example_feeds_the_table_of_the_readme(
    spark: SparkSession, broker: Settings, prices: StreamTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_classic(spark):
        pytest.skip("foreach_batch needs a classic session")
    address = bootstrap_servers(broker)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", address)
    monkeypatch.chdir(tmp_path)
    create_topic(broker, prices)
    values = [{"shop": "Rome", "product": "7", "price": 1.5}, {"shop": "Rome", "product": "7", "price": 2.5}]
    send(broker, prices.topic, [json.dumps(value).encode() for value in values])
    example = EXAMPLE.replace("broker:9092", address).replace("/lake/checkpoints", str(tmp_path / "checkpoints"))
    exec(example, {})  # noqa: S102 - the page's own example
    rows = read("prices").arrow().to_pylist()
    assert [(row["shop"], str(row["price"])) for row in rows] == [("Rome", "2.50")]
    assert read("prices_by_shop").arrow().num_rows == 1


def test_the_settings_of_the_page_are_those_that_a_session_needs() -> None:
    conf = json.loads(CONF)
    assert DELTA.items() <= conf.items()
    ivy = (ROOT / "lakehouse" / "local" / "ivy.xml").read_text(encoding="utf-8")
    for package in conf["spark.jars.packages"].split(","):
        organisation, name, version = package.split(":")
        assert f'org="{organisation}" name="{name}" rev="{version}"' in ivy


@pytest.mark.slow
def test_another_stream_that_is_repeated_keeps_the_values_of_a_table_with_a_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    names: dict[str, Any] = {"spark": spark, "__name__": "meters"}

    def run_append(checkpoint: str) -> None:
        folders = APPEND.replace("/lake/checkpoints/meters", str(tmp_path / checkpoint))
        exec(folders.replace("/lake", str(tmp_path)), names)  # noqa: S102 - the page's own example

    exec(DECLARATION.replace("/lake", str(tmp_path)), names)  # noqa: S102 - the page's own example
    context = TableContext(spark, Settings(home=tmp_path / "home", _env_file=None), names["meters"])
    for number, line in enumerate(('{"meter": "a", "reading": 2, "kwh": 5.5}', '{"meter": "a", "reading": 1}')):
        (tmp_path / "incoming").mkdir(exist_ok=True)
        (tmp_path / "incoming" / f"{number}.json").write_text(line)
        run_append("first")
        merge_all(context)
    for checkpoint, appended_rows in (("first", 2), ("second", 4)):
        run_append(checkpoint)
        merge_all(context)
        assert context.merged.rows().select("meter", "reading", "kwh").collect() == [("a", 2, 5.5)]
        assert context.ledger().totals.read == appended_rows
    context.spark.sql(f"DELETE FROM delta.`{tmp_path / 'landing' / 'meters'}`")
    merge_all(context)
    assert context.merged.rows().count() == 1
    assert all(finding.passed for finding in audit(context.ledger()))
