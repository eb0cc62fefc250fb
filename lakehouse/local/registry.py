"""The embedded schema registry of a state folder: a real one, as a child process on loopback."""

import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from lakehouse.errors import RegistryError
from lakehouse.local.embedded import Embedded, wait
from lakehouse.local.jars import ensure_jars
from lakehouse.local.java import find_java
from lakehouse.local.locks import held_lock
from lakehouse.local.ports import draw_port, is_free
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import LOOPBACK
from lakehouse.settings.registry_address import PORT_FILE, registry_folder, registry_url, remembered_port, require_own

_LEAVE_SECONDS = 5.0
_LIMIT = 2.0  # seconds for one look
_LOCK_SECONDS = 120.0  # for another process that unpacks the program


class EmbeddedRegistry(Embedded):
    """The schema registry of one state folder, in ``HOME/registry``: Apicurio, with the API of Confluent's."""

    name = "registry"
    error = RegistryError

    def __init__(self, settings: Settings) -> None:
        require_own(settings)
        super().__init__(settings, registry_folder(settings))

    @property
    def log(self) -> Path:
        """The file that holds what the registry says."""
        return self._folder / "registry.log"

    @property
    def address(self) -> str:
        """Where its API is; the port may change at a start. Raises ``RegistryError`` before the first."""
        return registry_url(self._settings)

    def _command(self) -> list[str]:
        program = _unpacked(self._settings)
        port = self._port()
        data = self._folder / "data"
        options = {
            "quarkus.http.host": LOOPBACK,
            "quarkus.http.port": port,
            "quarkus.log.console.level": "WARN",
            "quarkus.banner.enabled": "false",
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            # what was registered is on disk before the answer: records written by it would else be of no schema
            "apicurio.datasource.url": f"jdbc:h2:file:{data}/registry;WRITE_DELAY=0",
        }
        flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        return [str(find_java().path), *flags, *(f"-D{n}={v}" for n, v in options.items()), "-jar", str(program)]

    def _port(self) -> int:
        port = remembered_port(self._folder)
        if port is not None and wait(partial(is_free, port), _LEAVE_SECONDS):
            return port
        port = draw_port()
        written = self._folder / f"{PORT_FILE}.new"
        written.write_text(str(port))
        written.replace(self._folder / PORT_FILE)
        return port

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.address}/subjects", timeout=_LIMIT) as answer:  # noqa: S310 - our own
                return bool(answer.status == 200)
        except (RegistryError, URLError, OSError, ValueError):
            return False

    def _settle(self) -> None:
        """At its first start, ask of new versions what other registries ask: that they read what was written before."""
        done = self._folder / "configured"
        if not done.exists():
            body = json.dumps({"compatibility": "BACKWARD"}).encode()
            headers = {"Content-Type": "application/json"}
            asked = Request(f"{self.address}/config", data=body, headers=headers, method="PUT")  # noqa: S310 - our own
            with urlopen(asked, timeout=_LIMIT * 5):  # noqa: S310
                done.touch()

    def _last_error(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return next((line.strip() for line in reversed(lines) if "ERROR" in line or "Exception" in line), "")


def _unpacked(settings: Settings) -> Path:
    """The program, unpacked beside its archive, once for all homes."""
    (archive,) = ensure_jars(settings, "registry")
    folder = archive.with_name(archive.name.removesuffix(".tar.gz"))
    with held_lock(archive.with_name("lock"), _LOCK_SECONDS):
        if not folder.is_dir():
            fresh = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            with tarfile.open(archive) as held:
                held.extractall(fresh, filter="data")
            fresh.replace(folder)
    (program,) = folder.glob("*-runner.jar")
    return program


@contextmanager
def running_registry(settings: Settings) -> Iterator[str]:
    """Yield the address of a registry to use, starting the embedded one only where nobody has: as a broker."""
    if settings.registry_url:
        yield settings.registry_url
        return
    with EmbeddedRegistry(settings).running() as address:
        yield address
