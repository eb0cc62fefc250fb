"""A streaming query cannot feed every table, nor from everywhere."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lakehouse
from lakehouse.declaration import Files
from lakehouse.errors import DeclarationError, SetupError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings

SETTINGS = Settings(kafka_bootstrap_servers="127.0.0.1:1", _env_file=None)


def test_a_query_over_spark_connect_is_refused_when_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(SetupError, match="runs on the server.*lakehouse follow"):
        lakehouse.foreach_batch(temperatures, SETTINGS)


def test_a_micro_batch_of_spark_connect_is_refused() -> None:
    """Double: a data frame whose session has no Java in this process."""
    records: Any = SimpleNamespace(sparkSession=SimpleNamespace())
    with pytest.raises(SetupError, match="needs a Spark of this process"):
        lakehouse.foreach_batch(temperatures, SETTINGS)(records, 0)


def test_a_table_that_reads_files_is_refused(tmp_path: Path) -> None:
    table = replace(temperatures, topic="", base=None, source=Files(str(tmp_path), settle=timedelta(0)))
    with pytest.raises(DeclarationError, match=f"{table.name} does not read a topic"):
        lakehouse.foreach_batch(table, SETTINGS)
