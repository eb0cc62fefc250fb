"""The Spark session: local, on a cluster or over Spark Connect. The only place with its Spark and Delta settings."""

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import pyspark
from pyspark import SparkContext
from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession

from lakehouse.errors import SetupError
from lakehouse.local.jars import ensure_jars, required_jars, spark_groups
from lakehouse.local.java import EXIT_WITHOUT_MEMORY, find_java, garbage_collector
from lakehouse.settings import Settings
from lakehouse.settings.spark_conf import DELTA, EXACT, REDACTION, is_of_session, join_patterns, redaction_pattern
from lakehouse.settings.store import Store
from lakehouse.settings.store_access import LOG_STORE, LOG_STORES
from lakehouse.spark.engine import engine_folder, share_lock
from lakehouse.spark.own_session import activate, is_classic, make_exact, running_session
from lakehouse.spark.own_spark import start_spark, stop_spark

# each commit rebuilds the state of the table in this many tasks; the default of 50 is for huge tables
_SNAPSHOT = {"spark.databricks.delta.snapshotPartitions": "2"}
_CODE_CACHE = {
    # a batch with feed and rollup needs about 250 generated classes; with the default of 100, Spark compiles
    # all of them again for every batch
    "spark.sql.codegen.cache.maxEntries": "2000",
}
_PYTHON_WORKERS = {
    # with columnar input, Spark converts columns that a worker does not need to rows and back
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # bytes of records that a worker gets at once: this limits its memory
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 * 1024 * 1024),
}
FILE_SIZE = 128 * 1024 * 1024  # maximum bytes of a file; compaction does not touch larger files
_COMPACTION = {
    "spark.databricks.delta.optimize.minFileSize": str(FILE_SIZE),
    "spark.databricks.delta.optimize.maxFileSize": str(FILE_SIZE),
}
_SESSION_CONF = {**_SNAPSHOT, **EXACT, **_COMPACTION, **_PYTHON_WORKERS}  # also on a Spark of another program
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
_SERVER_CONF = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    # sessions share generated classes and Python workers: no client adds its own code to a session
    "spark.sql.artifact.isolation.enabled": "false",
    # the session of a dead client, with everything it uses, is removed within minutes
    "spark.connect.session.manager.defaultSessionTimeout": "5m",
    "spark.connect.execute.manager.detachedTimeout": "5m",
    "spark.cleaner.periodicGC.interval": "3min",
    # a client cannot attach again to the start of an operation that has reported progress
    "spark.connect.progress.reportInterval": "-1",
    # limits on what a server remembers of finished work
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.connect.ui.retainedSessions": "20",
    "spark.sql.connect.ui.retainedStatements": "20",
}
# the packages that the workers of an engine load, and the variables with its access to an object store
_WORKER_PACKAGES = ("pyarrow", "numpy", "orjson")
_STORE_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_CONF_DIR")
_OF_AZURE = "io.delta.storage.AzureLogStore"  # Delta's own class, which renames entries by condition
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
# settings of the user that are joined with ours; ours come last, since the last option of Java counts
_SEPARATORS = {
    _DRIVER_OPTIONS: " ",
    "spark.executor.extraJavaOptions": " ",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.jars": ",",
}
_SHARED_LOCKS: dict[Path, int] = {}  # locks that prevent the start of engines while this process has its own Spark
_USERS: dict[SparkContext, set[SparkSession]] = {}  # each Spark that this process started, and our sessions on it


def spark_conf(settings: Settings) -> dict[str, str]:
    """Return the settings of a Spark started here, without a UI; missing jars are fetched."""
    paths = [path for group in spark_groups(settings) for path in ensure_jars(settings, group)]
    conf = _base_conf(settings, paths)
    option_text = f"{_read_defaults()} {conf[_DRIVER_OPTIONS]}"
    collector = garbage_collector(option_text) if settings.spark_is_local else ()
    return {**conf, _DRIVER_OPTIONS: " ".join([conf[_DRIVER_OPTIONS], *collector]), "spark.ui.enabled": "false"}


def engine_conf(settings: Settings) -> dict[str, str]:
    """Return the settings of the engine of the home: those of a Spark started here, and those for many clients."""
    return {**spark_conf(settings), **_SERVER_CONF}


def _base_conf(settings: Settings, paths: Sequence[Path]) -> dict[str, str]:
    jars = [str(path) for path in paths]
    is_local = settings.spark_is_local
    jar_conf = {"spark.driver.extraClassPath": os.pathsep.join(jars)} if is_local else {"spark.jars": ",".join(jars)}
    zone_options = dict.fromkeys((_DRIVER_OPTIONS, "spark.executor.extraJavaOptions"), "-Duser.timezone=UTC")
    driver_options = {_DRIVER_OPTIONS: f"{zone_options[_DRIVER_OPTIONS]} {EXIT_WITHOUT_MEMORY}"}
    user_conf = settings.spark_settings
    our_conf = {**jar_conf, **zone_options, **driver_options}
    return {
        **_CODE_CACHE,
        **(_QUIET if is_local else {}),
        "spark.app.name": "lakehouse",
        # otherwise Spark creates a folder spark-warehouse in the working directory
        "spark.sql.warehouse.dir": str(settings.home_folder / "warehouse"),
        **(_store_conf(user_conf, settings.store) if settings.store.bucket else {}),
        **user_conf,
        **({REDACTION: _hidden_names(user_conf)} if user_conf or settings.store.kind else {}),
        **{name: _SEPARATORS[name].join(filter(None, [user_conf.get(name), text])) for name, text in our_conf.items()},
        **DELTA,
        **_SESSION_CONF,
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.spark_driver_memory,
    }


def _hidden_names(user_conf: Mapping[str, str]) -> str:
    """The pattern of the names whose values Spark hides, with that of its file of defaults."""
    line = re.search(rf"^\s*{re.escape(REDACTION)}[\s=:]+(\S.*?)\s*$", _read_defaults(), re.MULTILINE)
    return join_patterns(redaction_pattern(user_conf), line and line[1])


def _store_conf(user_conf: Mapping[str, str], store: Store) -> dict[str, str]:
    """The settings for tables in an object store and the way to it; no other class may write their logs."""
    for name in (name for name in user_conf if name.startswith(LOG_STORES)):
        problem = f"{name} cannot be set for tables in a store: commits of two writers could be lost"
        raise SetupError(problem, action="Remove it from LAKEHOUSE_SPARK_CONF.")
    return store.access.spark_conf(store.bucket or "")


def fingerprint(settings: Settings) -> str:
    """Return a hash of what a Spark started here would be. Nothing is fetched.

    It covers packages, jars (by file name, which has the version), settings, Python, Spark's environment variables and
    its file of defaults. If the tables are in an object store, it also covers the variables with the access to it.
    """
    jars = sorted(jar.path for jar in required_jars(settings) if jar.group in spark_groups(settings))
    python = [os.path.realpath(sys.prefix), sys.version]  # not the name of the executable
    spark_variables = [os.environ.get(name, "") for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")]
    versions = [spark_version, *map(version, _WORKER_PACKAGES)]
    uses_uri = settings.store.folder is None
    access = {name: value for name, value in os.environ.items() if uses_uri and name.startswith(_STORE_VARIABLES)}
    parts = [versions, python, spark_variables, access, _read_defaults(), _base_conf(settings, jars), _SERVER_CONF]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _read_defaults() -> str:
    """Return the text of Spark's file of defaults; empty if there is none or it cannot be read."""
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    folder = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    with suppress(OSError):
        return (folder / "spark-defaults.conf").read_text(errors="replace")
    return ""


def build_session(settings: Settings) -> SparkSession:
    """Open our own session. The caller stops it with ``stop_session``.

    It is on the Spark of this process, else the server of the settings, else the engine of the home, else a new Spark.
    A process with its own Spark prevents the start of an engine of its home, and a running engine prevents the reverse.

    Raises ``SetupError`` if there is no suitable Java, jars are missing, no Spark Connect server answers, the engine
    has other settings than a session here would have, or the running Spark cannot be made exact.
    """
    # workers must import the same packages as this interpreter; another python3 may be on the path
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = _join_running(session_here) if (session_here := running_session()) else _open_elsewhere(settings)
    session_conf = {name: value for name, value in settings.spark_settings.items() if is_of_session(name)}
    try:
        make_exact(session, {**session_conf, **_SESSION_CONF})
        _require_log_store(session, settings)
    except BaseException:
        stop_session(session)
        raise
    if is_classic(session) and session.sparkContext in _USERS:
        _USERS[session.sparkContext].add(session)
    activate(session)
    return session


def _require_log_store(session: SparkSession, settings: Settings) -> None:
    """Refuse a Spark that would replace commits of others, unless a person says that there are no others."""
    store = settings.store
    if store.kind is None or store.access.one_writer:
        return
    name = f"{LOG_STORES}{urlsplit(store.uri).scheme}.impl"
    names, needed = (name, f"{LOG_STORES}class"), LOG_STORE if store.kind == "s3" else ""
    in_force = next(filter(None, (session.conf.get(name, "") for name in names)), "").removeprefix(_OF_AZURE)
    if in_force == needed:
        return
    jars = "and the jars of: python -m lakehouse.local.jars s3"
    start = f"with --conf {name}={needed} {jars}" if needed else f"without {' and '.join(names)}"
    raise SetupError(
        f"The Spark that is used has another class than {needed or 'that of Delta'} for logs, so commits could be lost",
        where=settings.spark_place,
        action=f"Start it {start} - or, if nothing else writes these tables at the same time, set"
        " LAKEHOUSE_STORE_WRITERS=one.",
    )


def _join_running(session_here: SparkSession) -> SparkSession:
    if is_classic(session_here):
        return session_here.newSession()
    from lakehouse.spark.connect import join_same_server  # noqa: PLC0415 - a Spark of this process needs no client

    return join_same_server(session_here)


def _open_elsewhere(settings: Settings) -> SparkSession:
    """Open a session on a server or an engine, else on a Spark that starts now."""
    if settings.spark_remote:
        from lakehouse.spark.connect import join  # noqa: PLC0415 - as above

        return join(settings, _SESSION_CONF)
    folder = engine_folder(settings)
    while folder not in _SHARED_LOCKS:
        lock = share_lock(settings)
        if lock is not None:
            _SHARED_LOCKS[folder] = lock
            continue
        from lakehouse.spark.connect import attach  # noqa: PLC0415 - as above

        if session := attach(folder, fingerprint(settings)):
            return session
    find_java()
    first = start_spark(spark_conf(settings), _SHARED_LOCKS[folder])
    _USERS[first.sparkContext] = set()
    return first.newSession()


def stop_session(spark: SparkSession, patience: float = 30.0) -> None:
    """Stop a session of ``build_session``. On a server, this interrupts the work of the session.

    Exception: if a statement that writes is left behind on a server, the next writer or the engine ends that session.
    A Spark that this process started ends with its last session, by force after ``patience`` seconds. A Spark that
    another program started keeps running.
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
