"""A table equals its database although the engine of its merges is killed while it writes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from lakehouse.ledger.audit import audit
from lakehouse.ledger.ledger import read_ledger
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.spark.engine import EngineProcess, engine_folder, read_address
from lakehouse_tests.helpers.databases import many_rows
from lakehouse_tests.helpers.databases.connect import Connect, connector_of
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.engines import home_of_workers, running_engine, runs, writer_of
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.rows import rows_of
from lakehouse_tests.helpers.waiting import wait_until

ROWS, KILLS = 3_500, 2
_DECLARATION = """
from lakehouse import Debezium, StreamTable
from lakehouse_tests.helpers.databases.many_rows import COLUMNS

items = StreamTable("items", "{topic}", "Items.", COLUMNS, ["id"], format=Debezium())
"""


@pytest.fixture
def engine_home(broker: Settings, tmp_path: Path) -> Settings:
    return home_of_workers(tmp_path / "home", broker)


@pytest.fixture
def database(engine_home: Settings, postgres: Postgres, tmp_path: Path) -> Iterator[str]:
    """A database whose changes a connector sends, and the declaration of its table."""
    database = f"engine_{uuid4().hex[:8]}"
    many_rows.create_rows(postgres, database, ROWS)
    (tmp_path / "tables").mkdir()
    declaration = _DECLARATION.format(topic=f"{database}.public.items")
    (tmp_path / "tables" / "items.py").write_text(declaration)
    connect = Connect(engine_home, tmp_path, connector_of(postgres, database, "public.items"))
    connect.start()
    try:
        yield database
    finally:
        connect.kill()


def start_merge(engine_home: Settings) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "LAKEHOUSE_HOME": str(engine_home.home_folder),
        "LAKEHOUSE_DECLARATIONS": str(engine_home.home_folder.parent / "tables"),
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers(engine_home),
        "LAKEHOUSE_SPARK_MASTER": engine_home.spark_master,
        "LAKEHOUSE_SPARK_DRIVER_MEMORY": engine_home.spark_driver_memory,
    }
    command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "merge", "items"]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def merge(engine_home: Settings) -> None:
    process = start_merge(engine_home)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "Attaching to the engine" in errors


def is_writing(engine_home: Settings) -> bool:
    """Whether a MERGE into the table runs on this engine; the note of a killed one names that."""
    writer, address = writer_of(engine_home, "items"), read_address(engine_folder(engine_home))
    return writer is not None and address is not None and writer.start == address.start and runs(writer)


def kill_engine_while_it_writes(engine_home: Settings, engine: EngineProcess) -> bool:
    """Merge, and kill the engine during the MERGE; start another. Return whether there was something to merge."""
    process = start_merge(engine_home)
    assert wait_until(lambda: is_writing(engine_home) or process.poll() is not None, 120.0)
    if process.poll() is not None:
        return False
    address = read_address(engine_folder(engine_home))
    assert address
    os.kill(address.pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "has ended" in errors
    assert writer_of(engine_home, "items"), "the end of the statement is unknown"
    engine.start()
    return True


@pytest.mark.timeout(600)
@pytest.mark.invariant("11.4", "15.1")
def test_a_table_equals_its_database_after_its_engine_was_killed_during_merges(
    engine_home: Settings, database: str, postgres: Postgres
) -> None:
    def rows() -> list[tuple[Any, ...]]:
        merge(engine_home)
        return sorted((row["id"], row["n"], row["note"]) for row in rows_of(engine_home, "items"))

    with running_engine(engine_home) as engine:
        assert wait_until(lambda: len(rows()) == ROWS, 120.0)
        table = DeltaTable(engine_home.table_uri("items"))
        table.alter.add_constraint({"written_by_spark": "id > 0"})  # deltalake writes no table with a constraint
        for number in range(1, KILLS + 1):
            many_rows.change_rows(postgres, database, ROWS, number)
            assert wait_until(lambda: kill_engine_while_it_writes(engine_home, engine), 120.0)
        expected_rows = sorted(postgres.rows("SELECT id, n, note FROM items", database))
        assert wait_until(lambda: rows() == expected_rows, 120.0)
    ledger = read_ledger(engine_home.table_uri("items"), "items", whole=True)
    assert not [finding for finding in audit(ledger) if not finding.passed]
    assert ledger.totals.read > 10_000
    assert ledger.totals.rejected == 0
