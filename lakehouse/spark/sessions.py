"""The Spark session, local, on a cluster or over Spark Connect: the only place with Spark and Delta settings."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark import SparkContext
from pyspark import __version__ as spark_version
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors.troubles import Trouble, means
from lakehouse.local.jars import ensure_jars, wanted_jars
from lakehouse.local.java import EXIT_WITHOUT_MEMORY, find_java, garbage_collector
from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import DELTA, EXACT, REDACTION, hidden, is_of_session
from lakehouse.spark.engine import engine_folder, share_lock
from lakehouse.spark.own_session import activate, is_classic, make_exact, running_session
from lakehouse.spark.own_spark import start_spark, stop_spark

if TYPE_CHECKING:
    import pyarrow as pa

# each commit rebuilds the table's state in this many tasks; the default of 50 is for huge tables
_SNAPSHOT = {"spark.databricks.delta.snapshotPartitions": "2"}
_WARM = {
    # a batch with feed and rollup needs some 250 generated classes: with the default of 100, Spark compiles
    # all of them again for every batch
    "spark.sql.codegen.cache.maxEntries": "2000",
}
_TO_WORKERS = {
    # where a file is read by columns, what a worker need not see is turned into rows and into columns again
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # bytes of records that a worker gets at once: what it holds is bounded for so many
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 * 1024 * 1024),
}
FILE_SIZE = 128 * 1024 * 1024  # bytes: what a file has at most; compaction leaves larger ones alone
_COMPACT = {
    "spark.databricks.delta.optimize.minFileSize": str(FILE_SIZE),
    "spark.databricks.delta.optimize.maxFileSize": str(FILE_SIZE),
}
_OF_SESSIONS = {**_SNAPSHOT, **EXACT, **_COMPACT, **_TO_WORKERS}  # also of one on a Spark that somebody else started
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
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # VACUUM lists folders in this many tasks; the default of 10,000 is for huge tables
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}
_SERVED = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    # sessions share generated classes and Python workers: nobody adds code of his own to one
    "spark.sql.artifact.isolation.enabled": "false",
    # what a client that died has left, its session with all it holds, goes within some minutes
    "spark.connect.session.manager.defaultSessionTimeout": "5m",
    "spark.connect.execute.manager.detachedTimeout": "5m",
    "spark.cleaner.periodicGC.interval": "3min",
    # an operation that has told its progress cannot be attached to again from its beginning
    "spark.connect.progress.reportInterval": "-1",
    # what a server remembers of work that is done, though nobody looks at it
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.connect.ui.retainedSessions": "20",
    "spark.sql.connect.ui.retainedStatements": "20",
}
# what the workers of an engine have loaded, and whose rights it has where tables are in a store
_LOADED = ("pyarrow", "numpy", "orjson")
_RIGHTS = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_CONF_DIR")
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
# what others give here stands before what we need: of options of Java, the last counts
_JOINED = {
    _DRIVER_OPTIONS: " ",
    "spark.executor.extraJavaOptions": " ",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.jars": ",",
}
_SHARED: dict[Path, int] = {}  # locks of the engines that may not start while this process has a Spark of its own
_USERS: dict[SparkContext, set[SparkSession]] = {}  # each Spark that was started here, and our sessions on it


def spark_conf(settings: Settings) -> dict[str, str]:
    """Return the settings of a session started here, without a UI, jars included (they are fetched when missing)."""
    conf = _conf(settings, ensure_jars(settings, "spark"))
    said = f"{_defaults()} {conf[_DRIVER_OPTIONS]}"
    chosen = garbage_collector(said) if settings.spark_is_local else ()
    return {**conf, _DRIVER_OPTIONS: " ".join([conf[_DRIVER_OPTIONS], *chosen]), "spark.ui.enabled": "false"}


def engine_conf(settings: Settings) -> dict[str, str]:
    """Return the settings of the engine of the home: those of a session started here, and what many clients need."""
    return {**spark_conf(settings), **_SERVED}


def _conf(settings: Settings, paths: Sequence[Path]) -> dict[str, str]:
    jars = [str(path) for path in paths]
    local = settings.spark_is_local
    shipped = {"spark.driver.extraClassPath": os.pathsep.join(jars)} if local else {"spark.jars": ",".join(jars)}
    zone = dict.fromkeys((_DRIVER_OPTIONS, "spark.executor.extraJavaOptions"), "-Duser.timezone=UTC")
    ended = {_DRIVER_OPTIONS: f"{zone[_DRIVER_OPTIONS]} {EXIT_WITHOUT_MEMORY}"}
    given = settings.spark_settings
    needed = {**shipped, **zone, **ended}
    return {
        **_WARM,
        **(_QUIET if local else {}),
        "spark.app.name": "lakehouse",
        # else a folder spark-warehouse appears where a command is started
        "spark.sql.warehouse.dir": str(settings.home_folder / "warehouse"),
        **given,
        **({REDACTION: hidden(given)} if given else {}),
        **{name: _JOINED[name].join(filter(None, [given.get(name), ours])) for name, ours in needed.items()},
        **DELTA,
        **_OF_SESSIONS,
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.spark_driver_memory,
    }


def fingerprint(settings: Settings) -> str:
    """What a session started here would be: its packages, jars (each version is another file), settings and Python.

    Also what the environment says of Spark, its file of defaults and, where tables are in a store, with whose rights.
    Nothing is fetched.
    """
    jars = sorted(jar.path for jar in wanted_jars(settings) if jar.group == "spark")
    python = [os.path.realpath(sys.prefix), sys.version]  # whatever name it was called by
    around = [os.environ.get(name, "") for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")]
    loaded = [spark_version, *map(version, _LOADED)]
    stored = not settings.store.is_path
    rights = {name: value for name, value in os.environ.items() if stored and name.startswith(_RIGHTS)}
    parts = [loaded, python, around, rights, _defaults(), _conf(settings, jars), _SERVED]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _defaults() -> str:
    """What the file of Spark's defaults says; empty where there is none, or it cannot be read."""
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    folder = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    with suppress(OSError):
        return (folder / "spark-defaults.conf").read_text(errors="replace")
    return ""


def build_session(settings: Settings) -> SparkSession:
    """Open a session of our own: on the Spark of this process, else a server or engine, else on one started here.

    The server is that of the settings, the engine that of the home. Whoever calls this stops it. As long as a process
    has a Spark of its own, no engine of its home starts, and where one lives, nobody starts a Spark of its own.

    Raises ``SetupError`` without a fitting Java, without the jars, where no Connect server answers, where the engine
    was started otherwise than a session would be here, or where the Spark that runs cannot be exact.
    """
    # workers have to import what this interpreter can, whatever python3 is on the path
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = _session_beside(running) if (running := running_session()) else _session_elsewhere(settings)
    given = {name: value for name, value in settings.spark_settings.items() if is_of_session(name)}
    try:
        make_exact(session, {**given, **_OF_SESSIONS})
    except BaseException:
        stop_session(session)
        raise
    if is_classic(session) and session.sparkContext in _USERS:
        _USERS[session.sparkContext].add(session)
    activate(session)
    return session


def _session_beside(running: SparkSession) -> SparkSession:
    if is_classic(running):
        return running.newSession()
    from lakehouse.spark.connect import join_beside  # noqa: PLC0415 - as below

    return join_beside(running)


def _session_elsewhere(settings: Settings) -> SparkSession:
    """A session on a server or an engine, else on a Spark that is started now."""
    if settings.spark_remote:
        return _join(settings)
    folder = engine_folder(settings)
    while folder not in _SHARED:
        lock = share_lock(settings)
        if lock is not None:
            _SHARED[folder] = lock
        elif session := _attach(folder, fingerprint(settings)):
            return session
    find_java()
    first = start_spark(spark_conf(settings), _SHARED[folder])
    _USERS[first.sparkContext] = set()
    return first.newSession()


def _attach(folder: Path, wanted: str) -> SparkSession | None:
    from lakehouse.spark.connect import attach  # noqa: PLC0415 - a session of one's own needs no client

    return attach(folder, wanted)


def _join(settings: Settings) -> SparkSession:
    from lakehouse.spark.connect import join  # noqa: PLC0415 - as above

    return join(settings, _OF_SESSIONS)


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
    few = collected(rows) if expected is not None and expected <= VERY_FEW_ROWS else None
    return rows.localCheckpoint() if few is None else spark.createDataFrame(few, rows.schema)


def collected(rows: DataFrame) -> "pa.Table | None":
    """Rows as this process holds them; ``None`` where they are larger than Spark gives away (1 GiB by default)."""
    try:
        return rows.toArrow()
    except Exception as error:
        if means(error, Trouble.TOO_LARGE):
            return None
        raise


def stop_session(spark: SparkSession, patience: float = 30.0) -> None:
    """Stop a session that ``build_session`` returned; on a server, what still runs in it is interrupted.

    Not so where a statement that writes was left behind on a server: that session is left to the next writer, or to the
    engine. A Spark that was started here ends with the last session on it, by force where it does not stop; one that
    somebody else started goes on.
    """
    if is_classic(spark):
        users = _USERS.get(spark.sparkContext)
        if users is None:
            return
        users.discard(spark)
        if users:
            return
        del _USERS[spark.sparkContext]
    stop_spark(spark, patience)
