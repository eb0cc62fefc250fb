"""The Java that runs Spark and the broker, and its options for garbage collection."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import SetupError

VERSIONS = (17, 21)
_ADVICE = "Install Java 17 or 21 and put it on PATH, or point JAVA_HOME to it."
# with it, Java fails with OutOfMemoryError if it collects garbage nearly all the time
_COLLECTOR_OPTIONS = ("-XX:+UseParallelGC",)
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
