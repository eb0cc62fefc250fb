"""A writer in a process of its own, that can be told to die at a chosen moment.

``python -m lakehouse_tests.helpers.attacks.worker HOME SERVERS REGISTRY`` starts a session of Spark, says that it is
ready and takes commands, one JSON object a line: what to do, to which table, and at which ``Point`` to die. It leads a
process group, so that SIGKILL to the group ends Python and its JVM at the same moment.
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
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Avro, StreamTable
from lakehouse.derived import refresh
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches
from lakehouse.ingest.batches import Request
from lakehouse.ingest.load import load_base
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.operations import repair
from lakehouse.operations.maintain import maintain
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session
from lakehouse.storage.layout import Layout
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.tables.log_tables import log_table

LOGGED = log_table()
Form = Literal["json", "avro", "log"]
_LOOK = 0.0005  # seconds between looks at a table's folder


@dataclass(frozen=True)
class Job:
    """What to do to which table; ``hottest`` is the greatest temperature that its declaration allows."""

    do: str
    name: str
    topic: str
    max_records: int | None = None
    folder: str | None = None
    hottest: float = 70.0
    form: Form = "json"

    @property
    def table(self) -> StreamTable:
        """The temperatures under another name, with a key and of JSON or Avro, or as a log table."""
        like = LOGGED if self.form == "log" else temperatures
        rollups = [replace(rollup, name=f"{self.name}_by_location") for rollup in like.rollups]
        column = replace(like.by_name["temperature_2m"], between=(-100, self.hottest))
        said: dict[str, Any] = dict(rollups=rollups, columns=[*like.columns[:3], column], references=())
        said |= {"format": Avro()} if self.form == "avro" else {}
        return replace(like, name=self.name, topic=self.topic, **said)

    def run(self, spark: SparkSession, settings: Settings) -> list[int]:
        """Do it; returns the numbers of the batches that it committed to the merged table."""
        done: Any = ()
        if self.do == "merge":
            done = batches.merge_all(TableContext(spark, settings, self.table), Request(self.max_records))
        elif self.do == "replay":
            done = replay(TableContext(spark, settings, self.table), None, Request(self.max_records))
        elif self.do == "redrive":
            done = redrive(TableContext(spark, settings, self.table))
        elif self.do == "load_base":
            load_base(TableContext(spark, settings, self.table), Path(self.folder or ""))
        elif self.do == "maintain":
            maintain(TableContext(spark, settings, self.table))
        elif self.do == "accept_gap":
            gap = repair.propose_gap(settings, self.table)
            if gap:
                repair.record(TableContext(spark, settings, self.table), gap)
        else:
            refresh.refresh_all(TableContext(spark, settings, self.table))
        return [outcome.entry.commit.number for outcome in done]


@dataclass(frozen=True)
class Point:
    """A moment to die at, the ``nth`` time (from 0) it comes.

    ``at`` names a function as ``module.function``, or ``write`` for a statement that writes the table with the
    job's name and ``suffix``. ``when``: before or after; of a statement also when its first data file is there
    (``file``), when its log entry is (``version``; ``log`` already while that is being written), or so many
    seconds after it began, at its end at the latest (``delay``). ``alone`` kills Python only: the JVM ends by itself.
    What happens within a statement is awaited in one of Spark's, unless it is to be ``quick``: others are over before
    it is seen.
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
        """Whether it lies within a statement that takes some time."""
        return self.when in ("file", "log", "delay") and not self.quick

    def die(self) -> None:
        if self.alone:
            os.kill(os.getpid(), signal.SIGKILL)
        os.killpg(0, signal.SIGKILL)


def inject(point: Point, name: str) -> tuple[ModuleType, str, Any]:
    """Put the end at a point of the product; returns what was changed and what stood there."""
    at = "storage.spark_writer._writing" if point.at == "write" else point.at
    module_name, _, function = at.rpartition(".")
    module = sys.modules[f"lakehouse.{module_name}"]
    real = getattr(module, function)
    deadly = _deadly_writing(point, name + point.suffix, real) if point.at == "write" else _deadly_call(point, real)
    setattr(module, function, deadly)
    return module, function, real


class Died(BaseException):
    """Instead of the end of a process: no ``except Exception`` of the product stops it."""


@contextmanager
def dying(point: Point, name: str) -> Iterator[None]:
    """What is done here comes to a point, before or after, and no further; else it is an error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Point, "die", _die)
        module, function, real = inject(point, name)
        try:
            with pytest.raises(Died):
                yield
        finally:
            setattr(module, function, real)


def _die(_: Point) -> None:
    raise Died


def _deadly_call(point: Point, real: Callable[..., Any]) -> Callable[..., Any]:
    passed = count()

    def call(*arguments: Any, **options: Any) -> Any:
        now = next(passed) == point.nth
        if now and point.when == "before":
            point.die()
        result = real(*arguments, **options)
        if now:
            point.die()
        return result

    return call


def _deadly_writing(point: Point, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    passed = count()

    @contextmanager
    def writing(layout: Layout) -> Iterator[None]:
        now = layout.name == name and next(passed) == point.nth
        if now and point.when == "before":
            point.die()
        with real(layout):
            if now and point.when not in ("before", "after"):
                threading.Thread(target=_watch, args=(point, Path(layout.uri)), daemon=True).start()
            yield
        if now and point.when in ("after", "delay"):
            point.die()

    return writing


def _watch(point: Point, folder: Path) -> None:
    """Die at the moment that the point names."""
    if point.when == "delay":
        time.sleep(point.delay)
        point.die()
    before = _seen(point.when, folder)
    while not _seen(point.when, folder) - before:
        time.sleep(_LOOK)
    point.die()


def _seen(when: str, folder: Path) -> set[str]:
    """The files whose coming is awaited."""
    log = folder / "_delta_log"
    if when == "version":
        return {file.name for file in log.glob("[0-9]*.json")}
    if when == "log":
        return {file.name for file in log.glob("*.json")} | {file.name for file in log.glob(".*.tmp")}
    return {str(file) for file in folder.rglob("*.parquet") if log not in file.parents}


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with it ignored
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
    _say({"ready": os.getpid()})
    for line in sys.stdin:
        command = json.loads(line)
        job = Job(**command["job"])
        point = Point(**command["point"]) if command["point"] else None
        if point:
            inject(point, job.name)
        try:
            with by_spark(point is not None and point.in_statement_of_spark):
                _say({"done": job.run(spark, settings)})
        except Exception as error:
            _say({"error": type(error).__name__, "text": str(error)[:2000]})


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def command(job: Job, point: Point | None) -> str:
    """The line that tells a worker what to do."""
    return json.dumps({"job": asdict(job), "point": asdict(point) if point else None})


if __name__ == "__main__":
    main()
