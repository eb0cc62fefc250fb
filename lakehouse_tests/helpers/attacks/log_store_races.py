"""A program that writes Delta logs in an object store with a Spark of lakehouse, against other writers. It prints JSON.

Arguments: an existing Delta table with the columns ``writer`` and ``row``, and the number of rows for each writer.
The output has the answers of the log store, the entries after them, and how many rows each writer appended.
"""

import fcntl
import json
import os
import struct
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import obstore
import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse.settings.store import Store
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse_tests.helpers.waiting import wait_until

OURS, OTHERS = '{"commitInfo":{"writer":"ours"}}\n', '{"commitInfo":{"writer":"other"}}\n'


_DELTAS_OWN = "io.delta.storage.AzureLogStore"  # in Azure, no setting names another class


class LogEntries:
    """Entries of one log: the log store in force creates them, and another writer does."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._jvm: Any = spark._jvm
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()
        setting = f"spark.delta.logStore.{folder.partition(':')[0]}.impl"
        package, name = str(spark.conf.get(setting, _DELTAS_OWN)).rsplit(".", 1)
        self._store = getattr(getattr(self._jvm, package), name)(self._configuration)
        self._folder = folder
        self._objects = Store(folder).objects()

    def create(self, number: int, lines: Path) -> str:
        """Create an entry with the lines of a file; return "created", or the class of Java's exception."""
        reader = self._jvm.java.io.BufferedReader(self._jvm.java.io.FileReader(str(lines)))
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{number:020d}.json")
        try:
            self._store.write(path, reader.lines().iterator(), False, self._configuration)
        except Py4JJavaError as error:
            return str(error.java_exception.getClass().getName())
        return "created"

    def put(self, number: int, text: str) -> None:
        obstore.put(self._objects, f"{number:020d}.json", text.encode())

    def read(self, number: int) -> str:
        return bytes(obstore.get(self._objects, f"{number:020d}.json").bytes()).decode()


def answer_writes(entries: LogEntries, folder: Path) -> dict[str, list[str]]:
    """Return the answer of the log store to each kind of write, with the entry that is stored after it."""
    lines = folder / "lines"
    lines.write_text(OURS)
    for number, text in ((1, OTHERS), (2, OURS)):
        entries.put(number, text)
    answers = {
        "new": entries.create(0, lines),
        "taken": entries.create(1, lines),
        "own": entries.create(2, lines),
        "raced": _race(entries, 3, folder / "pipe"),
    }
    return {name: [answer, entries.read(number)] for number, (name, answer) in enumerate(answers.items())}


def _race(entries: LogEntries, number: int, pipe: Path) -> str:
    """Let the other writer create the entry while ours waits for its lines, so after any look at the log."""
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(entries.create, number, pipe)
        with pipe.open("w") as writer:
            writer.write(OURS)
            writer.flush()
            assert wait_until(lambda: _unread_bytes(writer.fileno()) == 0)
            entries.put(number, OTHERS)
        return answer.result(60)


def _unread_bytes(descriptor: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0])


def append_at_once(spark: SparkSession, table: str, count: int) -> None:
    """Append ``count`` rows with each of two sessions of Spark and two other writers, at the same time."""

    def append_with_spark(writer: int) -> None:
        session = spark.newSession()
        for row in range(count):
            session.sql(f"INSERT INTO delta.`{table}` VALUES ({writer}, {row})")

    def append_without_spark(writer: int) -> None:
        for row in range(count):
            rows = pa.table({"writer": pa.array([writer], pa.int32()), "row": pa.array([row], pa.int32())})
            while True:
                try:
                    write_deltalake(table, rows, mode="append")
                    break
                except CommitFailedError:
                    continue

    work = (append_with_spark, append_with_spark, append_without_spark, append_without_spark)
    with ThreadPoolExecutor(len(work)) as pool:
        for result in [pool.submit(append, writer) for writer, append in enumerate(work)]:
            result.result(300)


def main() -> None:
    """Run both parts and print the answers and the rows."""
    table, count = sys.argv[1], int(sys.argv[2])
    with TemporaryDirectory() as folder:
        spark = build_session(Settings(home=folder, tables=table.rpartition("/")[0]))
        answers = answer_writes(LogEntries(spark, f"{table}_log"), Path(folder))
        append_at_once(spark, table, count)
        rows = spark.sql(f"SELECT writer, count(DISTINCT row) FROM delta.`{table}` GROUP BY 1 ORDER BY 1").collect()
        print(json.dumps({"answers": answers, "rows": [list(row) for row in rows]}))  # noqa: T201
        stop_session(spark)


if __name__ == "__main__":
    main()
