"""The Java that runs Spark and the broker, and the garbage collector of a Spark."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import SetupError

VERSIONS = (17, 21)
_ADVICE = "Install Java 17 or 21 and put it on PATH, or point JAVA_HOME to it."
# one that collects garbage nearly all the time has no memory left, and says so
_COLLECTOR = ("-XX:+UseParallelGC",)
# without memory it would go on in pieces: statements that never end, and locks that are never free
EXIT_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
OUT_OF_MEMORY = 3  # its exit code then
_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")
_COLLECTOR_NAMED = re.compile(r"-XX:\+Use\w+GC\b|-XX:(Flags|VMOptionsFile)=|(^|\s)@")  # the others name a file


@dataclass(frozen=True)
class Java:
    """A Java that can be used: its program, its major version and the line in which it names itself."""

    path: Path
    version: int
    text: str


def find_java() -> Java:
    """Return the Java of ``JAVA_HOME``, else the first on ``PATH``: the same choice that Spark makes.

    Raises ``SetupError`` where there is none, where it does not run, or where it is neither 17 nor 21.
    """
    path = _locate()
    text = _ask(path)
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    version = int(match[1]) if match else 0
    line = match.string[match.start() :].splitlines()[0] if match else "of an unknown version"
    if version not in VERSIONS:
        raise SetupError(f"Java here is {line}, which Spark and Kafka cannot use", where=str(path), action=_ADVICE)
    return Java(path, version, line.removeprefix("version ").replace('"', ""))


def _locate() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise SetupError("JAVA_HOME names a folder without Java", where=str(path), action=_ADVICE)
        return path
    found = shutil.which("java")
    if found is None:
        raise SetupError("Java is not installed, or not on PATH", action=_ADVICE)
    return Path(found)


def _ask(path: Path) -> str:
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        raise SetupError("Java does not run", where=str(path), action=_ADVICE) from None
    return answer.stderr + answer.stdout


def garbage_collector(defaults: str) -> tuple[str, ...]:
    """Options for the collector that takes the fewest CPU seconds on few cores.

    None where the environment, or Spark's file of ``defaults``, may name one: with two, Java does not start.
    """
    said = (defaults, *(os.environ.get(name, "") for name in _JAVA_OPTIONS))
    return () if any(_COLLECTOR_NAMED.search(text) for text in said) else _COLLECTOR
