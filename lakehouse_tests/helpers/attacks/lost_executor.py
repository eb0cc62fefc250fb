"""A MERGE on a cluster of two executors, one of which is killed before the rows that it counted are read.

``python -m lakehouse_tests.helpers.attacks.lost_executor HOME guarded|unguarded`` merges 300 rows into an empty table.
It prints a line of JSON: what Delta counted, how often Delta refused, and how many rows the table has afterwards.
``unguarded`` omits the settings that make Delta refuse.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse.errors import ExecutorLostError
from lakehouse.ledger.commits import Commit, Metrics
from lakehouse.ledger.ledger import read_ledger
from lakehouse.settings import Settings
from lakehouse.spark import sessions
from lakehouse.storage import spark_writer
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, from_source
from lakehouse.storage.schema_change import ensure_table
from lakehouse.storage.spark_writer import commit_merge, read_table
from lakehouse.storage.table_context import retry_on_conflict
from lakehouse_tests.helpers.processes import started_by

ROWS = 300
_MASTER = "local-cluster[2,1,1024]"
_TASKS = 32  # of the join that reads the shuffled rows: most tasks are still waiting when the first one has ended
_CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": str(_TASKS),
}
# the source of the MERGE survives the loss of an executor; the shuffled rows do not and are counted again
_SOURCE_CONF = {"spark.databricks.delta.merge.materializeSource.rddStorageLevel": "DISK_ONLY_2"}
_SPEC = MergeSpec("t.id = s.id", from_source(["note"]), from_source(["id", "note"]))
_POLL_SECONDS = 0.01  # between two checks of the stages


def session(settings: Settings, guarded: bool) -> SparkSession:
    """Start a session of lakehouse on the cluster, with or without the settings that make Delta refuse."""
    conf = {**sessions.spark_conf(settings), **_CONF}
    if not guarded:
        spark_writer._COUNTED_ONCE.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "spark_conf", lambda _: conf)
        patch.setattr(sessions, "_SESSION_CONF", {**sessions._SESSION_CONF, **_SOURCE_CONF})
        return sessions.build_session(settings)


@contextmanager
def killing(context: SparkContext) -> Iterator[None]:
    """Kill one executor once, before all tasks that read its shuffled rows have run."""
    finished = threading.Event()
    executor = next(pid for pid, command in started_by(os.getpid()).items() if "CoarseGrainedExecutor" in command)
    thread = threading.Thread(target=_kill_while_reading, args=(context, executor, finished))
    thread.start()
    yield
    finished.set()
    thread.join()


def _kill_while_reading(context: SparkContext, executor: int, finished: threading.Event) -> None:
    tracker = context.statusTracker()
    while not finished.wait(_POLL_SECONDS):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage.numTasks == _TASKS and stage.numCompletedTasks > 0 for stage in stages if stage):
            os.kill(executor, signal.SIGKILL)
            return


def merge(spark: SparkSession, layout: Layout) -> Metrics:
    """Merge the rows with a new plan."""
    source = spark.range(0, ROWS, 1, 4).selectExpr("id", "'new' AS note")
    version = read_ledger(layout.uri, layout.name).version
    commit = Commit(kind="batch", number=1, attempt=uuid4().hex, table_version=version)
    return commit_merge(spark, layout, source, _SPEC, commit).metrics


def main(home: Path, guarded: bool) -> None:
    settings = Settings(home=home, spark_master=_MASTER, _env_file=None)
    columns = [TableColumn("id", "BIGINT", "Key."), TableColumn("note", "STRING", "Value.")]
    layout = Layout("counted", settings.table_uri("counted"), "Counted rows.", columns)
    spark = session(settings, guarded)
    ensure_table(spark, layout)
    refusals = 0

    def merge_once() -> Metrics:
        nonlocal refusals
        try:
            return merge(spark, layout)
        except ExecutorLostError:
            refusals += 1
            raise

    with killing(spark.sparkContext):
        metrics = retry_on_conflict(merge_once)
    rows = read_table(spark, layout).count()
    sys.stdout.write(json.dumps({**asdict(metrics), "refused": refusals, "rows": rows}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "guarded")
