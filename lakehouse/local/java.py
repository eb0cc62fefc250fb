"""The Java that runs Spark and the broker: its options for garbage collection, and its heap.

``jstat`` reads the file of the heap too: a header, then entries with a name and a value. It exists if Java runs with
``UsePerfData``, its default. Java updates it after each garbage collection.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import NamedTuple

from lakehouse.errors import SetupError

VERSIONS = (17, 21)
_ADVICE = "Install Java 17 or 21 and put it on PATH, or point JAVA_HOME to it."
# with it, Java fails with OutOfMemoryError if it collects garbage nearly all the time
_COLLECTOR_OPTIONS = (
    "-XX:+UseParallelGC",
    # the collections that Spark asks for every few minutes give memory back that no statement used since
    "-XX:+UseAdaptiveSizePolicyWithSystemGC",
    "-XX:MinHeapFreeRatio=20",
    "-XX:MaxHeapFreeRatio=40",
    "-Xms128m",
)
# without it, Java would go on after an OutOfMemoryError, with statements that never end and locks that stay
EXIT_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
OUT_OF_MEMORY = 3  # the exit code with that option
_OPTION_VARIABLES = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
    "PYSPARK_SUBMIT_ARGS",
)
_COLLECTOR_CHOICE = re.compile(
    r"-XX:\+Use\w+GC\b|-XX:(Flags|VMOptionsFile)=|(^|\s)@"
)  # the latter two name a file of options
_HEADER = struct.Struct(">IBxxx")  # the magic number, and the byte order of the rest
_TABLE_START = 24  # bytes before the start and the number of the entries
_MAGIC = 0xCAFEC0C0
_FOLDER = Path("/tmp" if sys.platform == "linux" else tempfile.gettempdir())  # noqa: S108 - Java always uses /tmp on Linux
_FULL_SHARE = 0.95  # of the heap: above it, Java does little else than collect garbage


@dataclass(frozen=True)
class Java:
    """A usable Java: its program, its major version and its version line."""

    path: Path
    version: int
    text: str


def find_java() -> Java:
    """Return the Java of ``JAVA_HOME``, else the first on ``PATH``: Spark makes the same choice.

    Raises ``SetupError`` if there is none, it does not run, or it is neither 17 nor 21.
    """
    path = _locate_java()
    text = _read_version(path)
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    version = int(match[1]) if match else 0
    line = match.string[match.start() :].splitlines()[0] if match else "of an unknown version"
    if version not in VERSIONS:
        raise SetupError(f"Java is {line}, which Spark and Kafka cannot use", where=str(path), action=_ADVICE)
    return Java(path, version, line.removeprefix("version ").replace('"', ""))


def _locate_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise SetupError("JAVA_HOME is a folder without Java", where=str(path), action=_ADVICE)
        return path
    program = shutil.which("java")
    if program is None:
        raise SetupError("Java is not installed, or not on PATH", action=_ADVICE)
    return Path(program)


def _read_version(path: Path) -> str:
    try:
        result = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        raise SetupError("Java does not run", where=str(path), action=_ADVICE) from None
    return result.stderr + result.stdout


def garbage_collector(defaults: str) -> tuple[str, ...]:
    """The options of the garbage collector that takes the fewest CPU seconds on few cores.

    Empty if the environment, or ``defaults`` (the text of Spark's file of defaults), may choose a collector: Java does
    not start with two.
    """
    option_texts = (defaults, *(os.environ.get(name, "") for name in _OPTION_VARIABLES))
    return () if any(_COLLECTOR_CHOICE.search(text) for text in option_texts) else _COLLECTOR_OPTIONS


class Heap(NamedTuple):
    """Used and maximum bytes, and the share of time since the start that garbage collection took (0 to 1)."""

    used_bytes: int
    max_bytes: int
    collector_share: float

    @property
    def is_full(self) -> bool:
        """Whether the heap is too small for the work."""
        return self.used_bytes > _FULL_SHARE * self.max_bytes or self.collector_share > 0.5

    def __str__(self) -> str:
        """The numbers in one line."""
        used_size, max_size = (size / 2**30 for size in (self.used_bytes, self.max_bytes))
        share = f"{self.collector_share:.0%} of the time in garbage collection"
        return f"{used_size:.1f} of {max_size:.1f} GiB of memory in use, {share}"


def read_heap(pid: int) -> Heap | None:
    """Return the heap of a Java process; ``None`` if its performance data cannot be read."""
    try:
        counters = dict(_read_counters((_FOLDER / f"hsperfdata_{getuser()}" / str(pid)).read_bytes()))
    except (OSError, ValueError, struct.error):
        return None
    names = [name for name in counters if name.startswith("sun.gc.generation.")]
    max_bytes = sum(counters[name] for name in names if name.endswith(".maxCapacity") and ".space." not in name)
    used_bytes = sum(counters[name] for name in names if ".space." in name and name.endswith(".used"))
    total_ticks = counters.get("sun.os.hrt.ticks", 0)
    gc_ticks = sum(counters.get(f"sun.gc.collector.{number}.time", 0) for number in (0, 1))
    return Heap(used_bytes, max_bytes, gc_ticks / total_ticks if total_ticks else 0.0) if max_bytes else None


def _read_counters(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield the names and values of the entries with one number."""
    magic, is_little_endian = _HEADER.unpack_from(data)
    byte_order = "<" if is_little_endian else ">"
    if magic != _MAGIC:
        return
    entry_start, entry_count = struct.unpack_from(f"{byte_order}II", data, _TABLE_START)
    for _ in range(entry_count):
        length, name_at, vector_length, value_type, value_at = struct.unpack_from(
            f"{byte_order}IIIcxxxI", data, entry_start
        )
        if value_type == b"J" and not vector_length:
            name_start = entry_start + name_at
            (value,) = struct.unpack_from(f"{byte_order}q", data, entry_start + value_at)
            yield data[name_start : data.index(0, name_start)].decode(), value
        entry_start += length
