"""Tables of processes that tests stop while Spark writes, and a gate that pauses a write inside Java.

A process declares its tables from this module, by ``LAKEHOUSE_DECLARATIONS``. The file ``TESTS_GATE/armed`` names a
table and an operation of the log store of Delta (``list`` or ``write``). The next statement on that table pauses in
that operation until ``Gate.open``.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakehouse.declaration import Column, Deletes
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.local.jars import ensure_jars
from lakehouse.settings import Settings
from lakehouse.storage import eligibility, spark_writer, statement
from lakehouse_tests.helpers.brokers.streams import DELETES
from lakehouse_tests.helpers.tables.log_tables import COLUMNS, log_table
from lakehouse_tests.helpers.tables.tables import redeclare
from lakehouse_tests.helpers.waiting import wait_until

GATE, NAMES = "TESTS_GATE", "TESTS_TABLES"
_SOURCE = Path(__file__).parents[2] / "fixtures" / "java" / "HeldLogStore.java"


def tables(log: str, keyed: str) -> tuple[Any, Any]:
    """Declare a log table with a nested column and a table with deletes; each topic has the name of its table."""
    place = Column("place", "STRUCT<name: STRING, heights: ARRAY<INT>>", doc="Where it was measured.")
    log_declaration = log_table(columns=(*COLUMNS, place), rollups=[])
    return redeclare(log_declaration, name=log, topic=log), redeclare(
        temperatures, name=keyed, topic=keyed, rollups=[], references=(), deletes=Deletes(when=DELETES)
    )


@dataclass(frozen=True)
class Gate:
    """Pauses the writes of a process inside Java."""

    folder: Path

    def arm(self, table: str, operation: str) -> None:
        """Pause the next statement that writes a table, in an operation of the log store."""
        self.open()
        (self.folder / "armed").write_text(f"{table}.{operation}")

    def hold(self, table: str, operation: str) -> None:
        """Pause the next caller of this operation, for any reason."""
        self.open()
        (self.folder / f"{table}.{operation}").touch()

    def shut(self, uri: str) -> None:
        """Close the gate if it is armed for this table; the writing process calls this when a statement begins."""
        armed = self.folder / "armed"
        if armed.exists() and armed.read_text().partition(".")[0] == Path(uri).name:
            armed.rename(self.folder / armed.read_text())

    def is_reached(self, limit: float) -> bool:
        return wait_until(lambda: any(self.folder.glob("*.reached")), limit)

    def open(self) -> None:
        for file in self.folder.iterdir():
            file.unlink()


def compiled(folder: Path, settings: Settings) -> Path:
    """Compile the log store into a folder, with Spark defaults that make Delta write its logs through the gate."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("A Java compiler is not installed.")
    jars = [str(jar) for jar in ensure_jars(settings, "spark")]
    spark_jars = Path(pyspark.__file__).parent / "jars" / "*"
    classes = folder / "classes"
    subprocess.run([compiler, "-cp", os.pathsep.join([*jars, str(spark_jars)]), "-d", classes, _SOURCE], check=True)
    shutil.make_archive(str(folder / "held"), "zip", classes)
    (folder / "held.zip").rename(folder / "held.jar")
    defaults = f"spark.jars {folder / 'held.jar'}\nspark.delta.logStore.file.impl HeldLogStore\n"
    (folder / "spark-defaults.conf").write_text(defaults)
    return folder


def _install(gate: Gate) -> None:
    run_statement = statement.run_statement

    def run_with_gate(spark: Any, uri: str, *work: Any) -> None:
        gate.shut(uri)
        run_statement(spark, uri, *work)

    setattr(spark_writer, "run_statement", run_with_gate)  # noqa: B010 - the module imported this name
    setattr(eligibility, "MOST_ROWS", -1)  # noqa: B010


if NAMES in os.environ:
    LOG, KEYED = tables(*os.environ[NAMES].split(","))
    _install(Gate(Path(os.environ[GATE])))
