"""The jars of Spark, of the broker and of the registry: fetched once, then checked against a committed list.

What is wanted stands in ``ivy.xml`` and, file by file with its SHA-256, in ``jars.sha256``. The cache lies
outside the repository and serves every clone on a machine; once it is full, no network is needed.
``python -m lakehouse.local.jars [registry]`` fills it.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lakehouse.errors import LakehouseError, SetupError
from lakehouse.local.ivy import fetch
from lakehouse.local.locks import held_lock
from lakehouse.settings import Settings

Group = Literal["broker", "registry", "spark"]
State = Literal["sound", "missing", "damaged"]
GROUPS: tuple[Group, ...] = ("broker", "spark")
"""What everybody needs; the registry is for tables whose records name a schema."""
_LOCK_SECONDS = 1000.0  # for another process that fetches jars, which has a limit of its own
_LIST = Path(__file__).parent / "jars.sha256"


@dataclass(frozen=True)
class Jar:
    """One jar that is wanted: its group, where it lies in the cache and the SHA-256 it must have."""

    group: str
    path: Path
    sha256: str

    @property
    def state(self) -> State:
        """Read the file and compare."""
        if not self.path.is_file():
            return "missing"
        with self.path.open("rb") as file:
            return "sound" if hashlib.file_digest(file, "sha256").hexdigest() == self.sha256 else "damaged"

    @property
    def stamp(self) -> list[str | int]:
        """What stays the same while nobody touches the file; empty where there is none."""
        if not self.path.is_file():
            return []
        status = self.path.stat()
        return [self.sha256, status.st_size, status.st_mtime_ns]


@dataclass(frozen=True)
class JarState:
    """A jar as it lies in the cache now."""

    jar: Jar
    state: State


def wanted_jars(settings: Settings) -> list[Jar]:
    """Return every jar of the committed list, whether it is in the cache or not."""
    pairs = (line.split() for line in _LIST.read_text().splitlines())
    return [Jar(name.split("/")[0], settings.jar_folder / name, sha256) for sha256, name in pairs]


def jar_states(settings: Settings) -> list[JarState]:
    """Return how each wanted jar lies in the cache, by reading it; nothing is fetched or written."""
    return [JarState(jar, jar.state) for jar in wanted_jars(settings)]


def ensure_jars(settings: Settings, group: Group) -> list[Path]:
    """Return the jars of the group, sorted, each with the SHA-256 that was committed for it.

    Missing jars are fetched first, by one process at a time. A jar that was checked before is read again
    only where its size or time has changed. A second run fetches nothing.

    Raises ``SetupError`` where a jar is damaged, or is missing and cannot be fetched.
    """
    jars = [jar for jar in wanted_jars(settings) if jar.group == group]
    if not _checked_before(settings, jars):
        with _locked(settings):
            _complete(settings, jars, group)
    return sorted(jar.path for jar in jars)


def _complete(settings: Settings, jars: Sequence[Jar], group: Group) -> None:
    missing = [jar for jar in jars if jar.state == "missing"]
    if missing:
        incoming = settings.jar_folder / "incoming"
        fetch(group, incoming)
        for jar in missing:
            _keep(incoming, jar)
        shutil.rmtree(incoming)
    damaged = [jar.path for jar in jars if jar.state == "damaged"]
    if damaged:
        raise SetupError(
            "A jar is damaged: its SHA-256 is not the expected one",
            where=str(damaged[0]),
            action="Delete this file and run the same command again; it will be fetched anew.",
        )
    _remember(settings, jars)


def _keep(incoming: Path, jar: Jar) -> None:
    fetched = Jar(jar.group, incoming / jar.group / jar.path.name, jar.sha256)
    if fetched.state != "sound":
        shutil.rmtree(incoming)
        raise SetupError(
            f"{jar.path.name} was fetched and not kept: its SHA-256 is not the expected one",
            action="Run the same command again, from another network if this one changes what is fetched.",
        )
    jar.path.parent.mkdir(exist_ok=True)
    fetched.path.replace(jar.path)


@contextmanager
def _locked(settings: Settings) -> Iterator[None]:
    try:
        settings.jar_folder.mkdir(parents=True, exist_ok=True)
        with held_lock(settings.jar_folder / "lock", _LOCK_SECONDS):
            yield
    except OSError as error:
        raise SetupError(
            f"The cache of the jars cannot be used: {error.strerror or error}",
            where=str(settings.jar_folder),
            action="Give it space and permission to write, or set LAKEHOUSE_JARS to another folder.",
        ) from None


def _checked_before(settings: Settings, jars: Sequence[Jar]) -> bool:
    known = _stamps(settings)
    return all(known.get(str(jar.path)) == jar.stamp for jar in jars)


def _stamps(settings: Settings) -> dict[str, list[str | int]]:
    try:
        stamps = json.loads((settings.jar_folder / "checked.json").read_text())
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def _remember(settings: Settings, jars: Sequence[Jar]) -> None:
    stamps = _stamps(settings) | {str(jar.path): jar.stamp for jar in jars}
    written = settings.jar_folder / "checked.json.new"
    written.write_text(json.dumps(stamps, indent=1))
    written.replace(settings.jar_folder / "checked.json")


def main() -> int:
    """Fill the cache and say so in one line; return the exit code."""
    try:
        settings = Settings.load()
        more: tuple[Group, ...] = ("registry",) if "registry" in sys.argv[1:] else ()
        count = sum(len(ensure_jars(settings, group)) for group in (*GROUPS, *more))
    except LakehouseError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    print(f"{count} jars, each with its SHA-256, are in {settings.jar_folder}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
