"""Tables of processes that tests stop while Spark writes, and the gate that holds the writing open inside Java.

A process declares its tables from this module, by ``LAKEHOUSE_DECLARATIONS``. Where the file ``TESTS_GATE/armed`` holds
the name of a table and a place in Delta's log store (``list`` or ``write``), its next statement on that table stops
there until ``Gate.open``.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakehouse.declaration import Column
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.local.jars import ensure_jars
from lakehouse.settings import Settings
from lakehouse.storage import eligibility, spark_writer, statement
from lakehouse_tests.helpers.tables.log_tables import COLUMNS, log_table
from lakehouse_tests.helpers.waiting import wait_until

GATE, NAMES = "TESTS_GATE", "TESTS_TABLES"
_SOURCE = Path(__file__).parents[2] / "fixtures" / "java" / "HeldLogStore.java"


def tables(log: str, keyed: str) -> tuple[Any, Any]:
    """A log table with a nested column and a keyed table, each of a topic of its own name."""
    place = Column("place", "STRUCT<name: STRING, heights: ARRAY<INT>>", doc="Where it was measured.")
    nested = log_table(columns=(*COLUMNS, place), rollups=[])
    return replace(nested, name=log, topic=log), replace(
        temperatures, name=keyed, topic=keyed, rollups=[], references=()
    )


@dataclass(frozen=True)
class Gate:
    """Holds what a process writes open inside Java."""

    folder: Path

    def arm(self, table: str, where: str) -> None:
        """Let the next statement that writes a table stop at a place of the log store."""
        self.open()
        (self.folder / "armed").write_text(f"{table}.{where}")

    def hold(self, table: str, where: str) -> None:
        """Stop whoever comes to this place next, whatever it does there."""
        self.open()
        (self.folder / f"{table}.{where}").touch()

    def shut(self, uri: str) -> None:
        """Take what is armed for this table as a statement begins, in the process that writes."""
        armed = self.folder / "armed"
        if armed.exists() and armed.read_text().partition(".")[0] == Path(uri).name:
            armed.rename(self.folder / armed.read_text())

    def reached(self, limit: float) -> bool:
        return wait_until(lambda: any(self.folder.glob("*.reached")), limit)

    def open(self) -> None:
        for left in self.folder.iterdir():
            left.unlink()


def compiled(folder: Path, settings: Settings) -> Path:
    """A folder with Spark's defaults by which Delta writes its logs through the gate."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("There is no compiler of Java.")
    jars = [str(jar) for jar in ensure_jars(settings, "spark")]
    spark = Path(pyspark.__file__).parent / "jars" / "*"
    classes = folder / "classes"
    subprocess.run([compiler, "-cp", os.pathsep.join([*jars, str(spark)]), "-d", classes, _SOURCE], check=True)
    shutil.make_archive(str(folder / "held"), "zip", classes)
    (folder / "held.zip").rename(folder / "held.jar")
    said = f"spark.jars {folder / 'held.jar'}\nspark.delta.logStore.file.impl HeldLogStore\n"
    (folder / "spark-defaults.conf").write_text(said)
    return folder


def _install(gate: Gate) -> None:
    real = statement.run_statement

    def held(spark: Any, uri: str, *work: Any) -> None:
        gate.shut(uri)
        real(spark, uri, *work)

    setattr(spark_writer, "run_statement", held)  # noqa: B010 - it is another module's name there
    setattr(eligibility, "MOST_ROWS", -1)  # noqa: B010


if NAMES in os.environ:
    LOG, KEYED = tables(*os.environ[NAMES].split(","))
    _install(Gate(Path(os.environ[GATE])))
