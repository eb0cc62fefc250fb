"""The jars of Spark, the broker and the registry: fetched once, then checked against a committed list.

``ivy.xml`` lists the jars, and ``jars.sha256`` lists each file with its SHA-256. The cache is outside the repository
and shared by all clones on a machine; once it is complete, no network is needed.
``python -m lakehouse.local.jars [registry] [s3] [azure]`` fills it. One jar of S3 is compiled:
``ConditionalLogStore.java``.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from zipfile import ZipFile, ZipInfo

from lakehouse.errors import LakehouseError, SetupError
from lakehouse.local.java import find_java
from lakehouse.local.process import hold_lock
from lakehouse.settings import Settings

_HERE = Path(__file__).parent
_LIMIT_SECONDS = 900.0
Group = Literal["azure", "broker", "registry", "s3", "spark"]
State = Literal["sound", "missing", "damaged"]
GROUPS: tuple[Group, ...] = ("broker", "spark")
"""The groups that are always needed."""
_EXTRA_GROUPS: tuple[Group, ...] = ("registry", "s3", "azure")  # for records that name a schema, and for stores


def spark_groups(settings: Settings) -> tuple[Group, ...]:
    """The groups of a Spark: with tables in an object store, also that of its file system."""
    kind = settings.store.kind
    return ("spark", kind) if kind else ("spark",)


_LOCK_SECONDS = 1000.0  # to wait for another process that fetches jars, which has its own limit
_SECOND = 1_000_000_000  # nanoseconds
_LIST = Path(__file__).parent / "jars.sha256"
_LOG_STORE = "lakehouse-log-store-2.jar"  # the number changes with the class
_JAR_TIME = (1980, 1, 1, 0, 0, 0)  # the same bytes on each day


def fetch(group: str, folder: Path) -> None:
    """Fetch the jars of one configuration of ``ivy.xml`` into ``folder/<group>/``.

    After an interruption, only missing jars are fetched. Raises ``SetupError`` if there is no network, no Java or no
    pyspark package.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "ivy.log"
    with log.open("wb") as output:
        try:
            subprocess.run(_command(group, folder), stdout=output, stderr=output, timeout=_LIMIT_SECONDS, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            raise SetupError(
                f"Jars of the group {group} are missing from the cache and could not be fetched",
                where=f"details in {log}",
                action="Connect to the network once and run the same command again.",
            ) from None


def _command(group: str, folder: Path) -> list[str]:
    return [
        *(str(find_java().path), "-jar", str(_ivy_jar())),
        *("-settings", str(_HERE / "ivysettings.xml")),
        *("-ivy", str(_HERE / "ivy.xml")),
        *("-confs", group),
        *("-cache", str(folder / "cache")),
        *("-retrieve", f"{folder}/[conf]/[artifact]-[revision].[ext]"),
    ]


def _ivy_jar() -> Path:
    package = find_spec("pyspark")
    folders = package.submodule_search_locations if package else None
    jars = [jar for folder in folders or [] for jar in Path(folder).glob("jars/ivy-*.jar")]
    if not jars:
        raise SetupError(
            "The pyspark package is missing or contains no Ivy",
            action="Install lakehouse again (in its repository: make install).",
        )
    return jars[0]


@dataclass(frozen=True)
class Jar:
    """One required jar: its group, its path in the cache and its expected SHA-256."""

    group: str
    path: Path
    sha256: str

    @property
    def state(self) -> State:
        """Read the file and compare its SHA-256."""
        if not self.path.is_file():
            return "missing"
        with self.path.open("rb") as file:
            return "sound" if hashlib.file_digest(file, "sha256").hexdigest() == self.sha256 else "damaged"

    @property
    def stamp(self) -> list[str | int]:
        """SHA-256, size and modification time, to notice changes; empty if there is no file."""
        if not self.path.is_file():
            return []
        status = self.path.stat()
        return [self.sha256, status.st_size, status.st_mtime_ns]


def required_jars(settings: Settings) -> list[Jar]:
    """Return all jars of the committed list, whether they are in the cache or not."""
    pairs = (line.split() for line in _LIST.read_text().splitlines())
    return [Jar(name.split("/")[0], settings.jar_folder / name, sha256) for sha256, name in pairs]


def jar_states(settings: Settings) -> list[tuple[Jar, State]]:
    """Read every required jar and return its state in the cache. Nothing is fetched or written."""
    return [(jar, jar.state) for jar in required_jars(settings)]


def ensure_jars(settings: Settings, group: Group) -> list[Path]:
    """Return the paths of the group's jars, sorted; each file has its committed SHA-256.

    Missing jars are fetched first, by one process at a time. A checked jar is read again only if its size or its
    modification time changes. In a cache that may only be read, complete jars are read each time if that is not known.

    Raises ``SetupError`` if a jar is damaged, or is missing and cannot be fetched.
    """
    jars = [jar for jar in required_jars(settings) if jar.group == group]
    stamps = _read_stamps(settings)
    if not all(_is_same(stamps.get(str(jar.path)), jar.stamp) for jar in jars):
        if _is_read_only(settings.jar_folder) and all(jar.path.is_file() for jar in jars):
            _require_sound(jars)
        else:
            with _cache_lock(settings):
                _complete_cache(settings, jars, group)
    return sorted(jar.path for jar in jars)


def _complete_cache(settings: Settings, jars: Sequence[Jar], group: Group) -> None:
    missing_jars = [jar for jar in jars if jar.state == "missing"]
    if missing_jars:
        incoming = settings.jar_folder / "incoming"
        if any(jar.path.name != _LOG_STORE for jar in missing_jars):
            fetch(group, incoming)
        if any(jar.path.name == _LOG_STORE for jar in missing_jars):
            _compile_log_store(settings, incoming / group)
        for jar in missing_jars:
            _store(incoming, jar)
        shutil.rmtree(incoming)
    _require_sound(jars)
    _store_stamps(settings, jars)


def _compile_log_store(settings: Settings, folder: Path) -> None:
    """Compile the log store with Spark's own compiler of Java: a Java without a compiler is enough."""
    folder.mkdir(parents=True, exist_ok=True)
    jars, log = _ivy_jar().parent, folder / "compiler.log"
    delta_jars = [jar.path for jar in required_jars(settings) if jar.path.name.startswith("delta-storage-")]
    libraries = [*jars.glob("hadoop-client-*.jar"), *delta_jars]
    class_path = [*jars.glob("janino-*.jar"), *jars.glob("commons-compiler-*.jar")]
    command = [str(find_java().path), "-cp", _join(class_path), "org.codehaus.commons.compiler.samples.CompilerDemo"]
    command += ["-d", str(folder), "-classpath", _join(libraries), str(_HERE / "ConditionalLogStore.java")]
    compiled_file = folder / "lakehouse" / "ConditionalLogStore.class"
    compiled_file.unlink(missing_ok=True)
    with log.open("wb") as output, suppress(subprocess.TimeoutExpired):
        subprocess.run(command, stdout=output, stderr=output, timeout=_LIMIT_SECONDS, check=False)
    if not compiled_file.is_file():
        text = log.read_text(errors="replace").strip()
        raise SetupError(
            f"The log store for S3 could not be compiled: {text[-300:]}", action="Install lakehouse again."
        )
    with ZipFile(folder / _LOG_STORE, "w") as jar:
        jar.writestr(ZipInfo("lakehouse/ConditionalLogStore.class", _JAR_TIME), compiled_file.read_bytes())


def _join(paths: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, sorted(paths)))


def _is_read_only(folder: Path) -> bool:
    return folder.is_dir() and not os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _require_sound(jars: Sequence[Jar]) -> None:
    damaged_paths = [jar.path for jar in jars if jar.state == "damaged"]
    if damaged_paths:
        raise SetupError(
            "A jar is damaged: its SHA-256 is not the expected one",
            where=str(damaged_paths[0]),
            action="Delete this file and run the same command again, which fetches it again.",
        )


def _store(incoming: Path, jar: Jar) -> None:
    fetched_jar = Jar(jar.group, incoming / jar.group / jar.path.name, jar.sha256)
    if fetched_jar.state != "sound":
        shutil.rmtree(incoming)
        is_compiled = jar.path.name == _LOG_STORE
        action = "Run the same command again, from another network if this one alters downloads."
        verb = "compiled" if is_compiled else "fetched"
        raise SetupError(
            f"{jar.path.name} was {verb} and discarded: its SHA-256 is not the expected one",
            action="Reinstall pyspark, whose compiler was used." if is_compiled else action,
        )
    jar.path.parent.mkdir(exist_ok=True)
    fetched_jar.path.replace(jar.path)


@contextmanager
def _cache_lock(settings: Settings) -> Iterator[None]:
    try:
        settings.jar_folder.mkdir(parents=True, exist_ok=True)
        with hold_lock(settings.jar_folder / "lock", _LOCK_SECONDS):
            yield
    except OSError as error:
        raise SetupError(
            f"The jar cache cannot be used: {error.strerror or error}",
            where=str(settings.jar_folder),
            action="Free some space or allow writing there, or set LAKEHOUSE_JARS to another folder.",
        ) from None


def _is_same(stored_stamp: object, stamp: list[str | int]) -> bool:
    """Whether a file is the one that was checked: an image that was pulled has whole seconds as modification times."""
    if not isinstance(stored_stamp, list) or len(stored_stamp) != len(stamp) or not stamp:
        return False
    *facts, stored_time = stored_stamp
    times = (stored_time, stored_time // _SECOND * _SECOND) if isinstance(stored_time, int) else ()
    return facts == stamp[:-1] and stamp[-1] in times


def _read_stamps(settings: Settings) -> dict[str, list[str | int]]:
    try:
        stamps = json.loads((settings.jar_folder / "checked.json").read_text())
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def _store_stamps(settings: Settings, jars: Sequence[Jar]) -> None:
    stamps = _read_stamps(settings) | {str(jar.path): jar.stamp for jar in jars}
    temporary_file = settings.jar_folder / "checked.json.new"
    temporary_file.write_text(json.dumps(stamps, indent=1))
    temporary_file.replace(settings.jar_folder / "checked.json")


def main() -> int:
    """Fill the cache and print one line; return the exit code."""
    try:
        settings = Settings.load()
        extra_groups = [group for group in _EXTRA_GROUPS if group in sys.argv[1:]]
        count = sum(len(ensure_jars(settings, group)) for group in (*GROUPS, *extra_groups))
    except LakehouseError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    print(f"{count} jars with the expected SHA-256 are in {settings.jar_folder}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
