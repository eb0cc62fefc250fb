"""A writer in a separate process, which can be ordered to die at a chosen moment.

``python -m lakehouse_tests.helpers.attacks.worker HOME SERVERS REGISTRY`` starts a session of Spark, reports that it
is ready and reads commands, one JSON object per line: what to do, for which table, and at which ``Point`` to die. It
leads a process group, so that SIGKILL to the group ends Python and its JVM at the same moment.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from importlib import import_module
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Avro, Deletes, FieldIs, Files, StreamTable, Topic, Topics
from lakehouse.derived import refresh
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches, merge
from lakehouse.ingest.batches import Request
from lakehouse.ingest.load import load_base
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import read_again, replay
from lakehouse.operations import repair
from lakehouse.operations.erase_rows import erase
from lakehouse.operations.foreach_batch import foreach_batch
from lakehouse.operations.maintain import maintain
from lakehouse.operations.planned_changes import layouts_of
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session
from lakehouse.storage.layout import Layout
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.attacks.source_tables import SOURCE_FORMS, SourceForm, source_table
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.queries import run_query
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream
from lakehouse_tests.helpers.tables.log_tables import log_table
from lakehouse_tests.helpers.tables.old_files import leave_old_file
from lakehouse_tests.helpers.tables.tables import column_of

LOG_TABLE = log_table()
ERASED = "temperature_2m > 10"  # the rows that a job erases
IS_WEATHER = FieldIs("type", ["weather"])
Form = (
    Literal["json", "avro", "log", "truncates", "elements", "topics", "files", "log of files", "data files"]
    | SourceForm
)
_POLL_SECONDS = 0.0005  # between two checks of the folder of a table


@dataclass(frozen=True)
class Job:
    """A task for one table; ``hottest`` is the maximum temperature of its declaration.

    If it reads files or another table, ``topic`` is their place. ``folder`` is that of base files, or the checkpoint
    of a query.
    """

    do: str
    name: str
    topic: str
    max_records: int | None = None
    folder: str | None = None
    hottest: float = 70.0
    form: Form = "json"

    @property
    def table(self) -> StreamTable:
        """The temperatures table under another name, in a form: each but a log table has a key and deletes."""
        if self.form in SOURCE_FORMS:
            return source_table(self.form, self.name, self.topic, self.max_records or 0)
        template = LOG_TABLE if self.form in ("log", "log of files", "data files") else temperatures
        rollups = [replace(rollup, name=f"{self.name}_by_location") for rollup in template.rollups]
        column = replace(column_of(template, "temperature_2m"), between=(-100, self.hottest))
        changes: dict[str, Any] = dict(rollups=rollups, columns=[*template.record_columns[:3], column], references=())
        changes |= {"format": Avro()} if self.form == "avro" else {}
        truncates = FieldIs("operation", ["TRUNCATE"]) if self.form == "truncates" else None
        changes |= {} if template is LOG_TABLE else {"deletes": Deletes(DELETES, truncates)}
        changes |= dict(base=None, rows_from="readings", where=IS_WEATHER) if self.form == "elements" else {}
        changes |= {"source": Topics(self.topics) if self.form == "topics" else Topic(self.topic)}
        if self.form in ("files", "log of files", "data files"):
            changes |= dict(base=None, source=Files(self.topic, settle=timedelta(0), batch_bytes=2_000))
        changes |= dict(partition_by=None, rollups=()) if self.form == "data files" else {}
        return replace(template, name=self.name, topic="", **changes)

    @property
    def topics(self) -> list[str]:
        """The topics of the job; several if that is its form."""
        return [f"{self.topic}-1", f"{self.topic}-2"] if self.form == "topics" else [self.topic]

    def run(self, spark: SparkSession, settings: Settings) -> list[int]:
        """Run the job; return the numbers of the batches that it committed to the merged table."""
        context, request = TableContext(spark, settings, self.table), Request(self.max_records)
        of_batches: dict[str, Callable[[], list[Outcome]]] = {
            "merge": lambda: self._merge(context),
            "replay": lambda: replay(context, None, request),
            "read_again": lambda: read_again(context, request=request),
            "redrive": lambda: redrive(context),
        }
        if self.do in of_batches:
            return [outcome.entry.commit.number for outcome in of_batches[self.do]()]
        other_work: dict[str, Callable[[], object]] = {
            "load_base": lambda: load_base(context, Path(self.folder or "")),
            "maintain": lambda: self._maintain(context),
            "stream": lambda: self._stream(context),
            "accept_gap": lambda: self._accept_gap(context),
            "erase": lambda: erase(context, ERASED),
            "refresh": lambda: refresh.refresh_all(context),
        }
        other_work[self.do]()
        return []

    def _stream(self, context: TableContext) -> None:
        stream, checkpoint = Stream(context.spark, context.settings, self.table), Path(self.folder or "")
        work = foreach_batch(self.table, context.settings)
        run_query(stream, checkpoint, work, maxOffsetsPerTrigger=self.max_records)

    def _maintain(self, context: TableContext) -> None:
        for layout in layouts_of(context.settings, self.table):
            leave_old_file(layout.uri)  # so that there is something to vacuum
        maintain(context)

    def _merge(self, context: TableContext) -> list[Outcome]:
        with pytest.MonkeyPatch.context() as patch:
            if self.form == "data files":
                patch.setattr(merge, "MANY_BYTES", 0)
            return batches.merge_all(context, Request(self.max_records))

    def _accept_gap(self, context: TableContext) -> None:
        gap = repair.propose_gap(context.settings, self.table)
        if gap:
            repair.record(context, gap)


@dataclass(frozen=True)
class Point:
    """A moment to die at, the ``nth`` time (from 0) that it occurs.

    ``at`` names a function as ``module.function``, or ``write`` for a statement that writes the table with the job's
    name and ``suffix``. ``when`` is ``before`` or ``after``. For a statement it may also be ``file`` (its first data
    file exists), ``log`` (its log entry is being written), ``version`` (its log entry exists) or ``delay`` (``delay``
    seconds after it began, at its end at the latest). ``alone`` kills Python only, and the JVM ends by itself. A moment
    within a statement requires that Spark writes, unless ``quick`` is set: other statements end too early to be seen.
    """

    at: str
    when: str = "before"
    nth: int = 0
    suffix: str = ""
    delay: float = 0.0
    alone: bool = False
    quick: bool = False

    @property
    def in_statement_of_spark(self) -> bool:
        """Whether the moment is within a statement of Spark, which takes some time."""
        return self.when in ("file", "log", "delay") and not self.quick

    def die(self) -> None:
        if self.alone:
            os.kill(os.getpid(), signal.SIGKILL)
        os.killpg(0, signal.SIGKILL)


def inject(point: Point, name: str) -> tuple[ModuleType, str, Any]:
    """Patch a function of lakehouse to die at a point; return its module, its name and the original function."""
    path = "storage.spark_writer.write_alone" if point.at == "write" else point.at
    module_name, _, function = path.rpartition(".")
    module = import_module(f"lakehouse.{module_name}")
    original = getattr(module, function)
    replacement = (
        _deadly_writing(point, name + point.suffix, original) if point.at == "write" else _deadly_call(point, original)
    )
    setattr(module, function, replacement)
    return module, function, original


def _deadly_call(point: Point, original: Callable[..., Any]) -> Callable[..., Any]:
    calls = count()

    def call(*arguments: Any, **options: Any) -> Any:
        is_due = next(calls) == point.nth
        if is_due and point.when == "before":
            point.die()
        result = original(*arguments, **options)
        if is_due:
            point.die()
        return result

    return call


def _deadly_writing(point: Point, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    calls = count()

    @contextmanager
    def writing(layout: Layout) -> Iterator[None]:
        is_due = layout.name == name and next(calls) == point.nth
        if is_due and point.when == "before":
            point.die()
        with original(layout):
            if is_due and point.when not in ("before", "after"):
                threading.Thread(target=_watch, args=(point, Path(layout.uri)), daemon=True).start()
            yield
        if is_due and point.when in ("after", "delay"):
            point.die()

    return writing


def _watch(point: Point, folder: Path) -> None:
    """Die at the moment of the point."""
    if point.when == "delay":
        time.sleep(point.delay)
        point.die()
    files_before = _awaited_files(point.when, folder)
    while not _awaited_files(point.when, folder) - files_before:
        time.sleep(_POLL_SECONDS)
    point.die()


def _awaited_files(when: str, folder: Path) -> set[str]:
    """The files of the kind that ``when`` waits for."""
    log = folder / "_delta_log"
    if when == "version":
        return {file.name for file in log.glob("[0-9]*.json")}
    if when == "log":
        return {file.name for file in log.glob("*.json")} | {file.name for file in log.glob(".*.tmp")}
    return {str(file) for file in folder.rglob("*.parquet") if log not in file.parents}


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start this process with SIGINT ignored
    home, servers, registry = sys.argv[1:]
    settings = Settings(
        home=Path(home),
        kafka_bootstrap_servers=servers,
        registry_url=registry or None,
        spark_master="local[1]",
        spark_driver_memory="640m",
        _env_file=None,
    )
    spark = build_session(settings)
    _send({"ready": os.getpid()})
    for line in sys.stdin:
        command = json.loads(line)
        job = Job(**command["job"])
        point = Point(**command["point"]) if command["point"] else None
        if point:
            inject(point, job.name)
        try:
            with by_spark(point is not None and point.in_statement_of_spark):
                _send({"done": job.run(spark, settings)})
        except Exception as error:
            _send({"error": type(error).__name__, "text": str(error)[:2000]})


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def command(job: Job, point: Point | None) -> str:
    """The line that orders a worker to run a job."""
    return json.dumps({"job": asdict(job), "point": asdict(point) if point else None})


if __name__ == "__main__":
    main()
