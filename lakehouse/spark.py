"""The Spark session, local, on a cluster or over Spark Connect: the only place with Spark and Delta settings."""

import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import SetupError
from lakehouse.errors.troubles import error_text
from lakehouse.local.jars import ensure_jars
from lakehouse.local.java import find_java
from lakehouse.settings import Settings

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # each commit rebuilds the table's state in this many tasks; the default of 50 is for huge tables
    "spark.databricks.delta.snapshotPartitions": "2",
}
_EXACT = {
    # times are UTC everywhere; another zone also makes Delta verify every commit by rebuilding its state
    "spark.sql.session.timeZone": "UTC",
    # as other readers do: of an INT96, Spark's own choice, many take the year 9999 for 1816
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # ${...} in a statement is text, never a variable of the machine
    "spark.sql.variable.substitute": "false",
    # a failed cast or an overflow is an error, never a NULL
    "spark.sql.ansi.enabled": "true",
    # where no target row is left after pruning, this rule drops the source of a MERGE before its rows are
    # counted: Delta then says that it had none
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # auto-compaction would copy a batch's metadata into a second commit
    "spark.databricks.delta.autoCompact.enabled": "false",
}
_WARM = {
    # a batch with feed and rollup needs some 250 generated classes: with the default of 100, Spark compiles
    # all of them again for every batch
    "spark.sql.codegen.cache.maxEntries": "2000",
}
FILE_SIZE = 128 * 1024 * 1024  # bytes: what a file has at most; compaction leaves larger ones alone
_COMPACT = {
    "spark.databricks.delta.optimize.minFileSize": str(FILE_SIZE),
    "spark.databricks.delta.optimize.maxFileSize": str(FILE_SIZE),
}
# few rows are joined and written in one task sooner than a plan is adapted to them stage by stage
_ONE_TASK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
FEW_ROWS = 50_000
# and very few sooner than the code for it is generated and compiled
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
VERY_FEW_ROWS = 10_000
_LITTLE = 1_000_000  # rows of a table that one task looks through
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # VACUUM lists folders in this many tasks; the default of 10,000 is for huge tables
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}
_EXCEPTION = re.compile(r"^(?:Caused by: |: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error): ")
_CONNECT_TIMEOUT = 3.0  # seconds; without a server the client would retry for minutes


def spark_conf(settings: Settings) -> dict[str, str]:
    """Return the settings of a session started here, jars included (they are fetched when missing)."""
    jars = [str(jar) for jar in ensure_jars(settings, "spark")]
    local = settings.spark_master.partition("[")[0] == "local"  # local-cluster has executors of its own
    shipped = {"spark.driver.extraClassPath": os.pathsep.join(jars)} if local else {"spark.jars": ",".join(jars)}
    return {
        **_DELTA,
        **_EXACT,
        **_COMPACT,
        **_WARM,
        **(_QUIET if local else {}),
        **shipped,
        "spark.master": settings.spark_master,
        "spark.app.name": "lakehouse",
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
    }


def build_session(settings: Settings) -> SparkSession:
    """Start a session, or join the Spark Connect server of the settings; whoever calls this stops it.

    Raises ``SetupError`` without a fitting Java, without the jars, or where no Connect server answers.
    """
    # workers have to import what this interpreter can, whatever python3 is on the path
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if settings.spark_remote:
        return _join(settings)
    find_java()
    builder: SparkSession.Builder = SparkSession.builder
    for name, value in spark_conf(settings).items():
        builder = builder.config(name, value)
    return _started(builder, settings)


def _started(builder: SparkSession.Builder, settings: Settings) -> SparkSession:
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        raise SetupError(
            f"Spark does not start: {_sentence(error_text(error))}",
            where=f"{settings.spark_master}, driver {settings.spark_driver_memory}",
            action="Check LAKEHOUSE_SPARK_MASTER, LAKEHOUSE_SPARK_DRIVER_MEMORY and Java.",
        ) from error


def _sentence(said: str) -> str:
    """What Spark says, without its trace: the last cause, else the first line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if _EXCEPTION.match(line)] or lines or ["it says nothing"]
    return _EXCEPTION.sub("", causes[-1])


def _join(settings: Settings) -> SparkSession:
    remote = settings.spark_remote.get_secret_value() if settings.spark_remote else ""
    address = urlsplit(remote)
    if not _accepts(address.hostname or "", address.port or 15002):
        raise SetupError(
            "No Spark Connect server answers",
            where=settings.spark_place,
            action="Start it or correct LAKEHOUSE_SPARK_REMOTE.",
        )
    session: SparkSession = SparkSession.builder.remote(remote).create()
    for name, value in {**_EXACT, **_COMPACT}.items():
        session.conf.set(name, value)
    return session


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT).close()
    except OSError:
        return False
    return True


@contextmanager
def rows_expected(spark: SparkSession, rows: int | None, met: int = 0) -> Iterator[None]:
    """Run statements over so many rows (``None``: nobody knows) in the way that is quicker for them.

    ``met`` are the rows of a table among which they are looked for.
    """
    few = rows is not None and rows <= FEW_ROWS and met <= _LITTLE
    very_few = rows is not None and rows + met <= VERY_FEW_ROWS
    wanted = (_ONE_TASK if few else {}) | (_INTERPRETED if few and very_few else {})
    before = {name: spark.conf.get(name) or "" for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            with suppress(Exception):  # a session that is gone keeps nothing, and why it is gone matters more
                spark.conf.set(name, value)


def held(spark: SparkSession, rows: DataFrame, expected: int | None) -> DataFrame:
    """Rows as they are now: very few by the plans that use them, others by the executors."""
    if expected is None or expected > VERY_FEW_ROWS:
        return rows.localCheckpoint()
    return spark.createDataFrame(rows.toArrow(), rows.schema)


def stop_session(spark: SparkSession) -> None:
    """Stop a session that ``build_session`` returned."""
    spark.stop()
