"""The embedded schema registry of a home: a real registry as a child process on loopback."""

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
from lakehouse.local.ports import draw_port, is_free
from lakehouse.local.process import hold_lock
from lakehouse.settings import Settings
from lakehouse.settings.addresses import (
    LOOPBACK,
    PORT_FILE,
    registry_folder,
    registry_url,
    remembered_port,
    require_own_registry,
)

_SHUTDOWN_SECONDS = 5.0
_REQUEST_SECONDS = 2.0
_LOCK_SECONDS = 120.0  # to wait for another process that unpacks the program


class EmbeddedRegistry(Embedded):
    """The schema registry of one home, in ``HOME/registry``: Apicurio, with Confluent's API."""

    name = "registry"
    error = RegistryError

    def __init__(self, settings: Settings) -> None:
        require_own_registry(settings)
        super().__init__(settings, registry_folder(settings))

    @property
    def log(self) -> Path:
        """The log file of the registry."""
        return self._folder / "registry.log"

    @property
    def address(self) -> str:
        """The URL of its API; a start may change the port. Raises ``RegistryError`` before the first start."""
        return registry_url(self._settings)

    def _command(self) -> list[str]:
        program = _unpacked(self._settings)
        port = self._choose_port()
        data = self._folder / "data"
        options = {
            "quarkus.http.host": LOOPBACK,
            "quarkus.http.port": port,
            "quarkus.log.console.level": "WARN",
            "quarkus.banner.enabled": "false",
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            # write a schema to disk before the answer: otherwise records could exist without their schema
            "apicurio.datasource.url": f"jdbc:h2:file:{data}/registry;WRITE_DELAY=0",
        }
        flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        return [str(find_java().path), *flags, *(f"-D{n}={v}" for n, v in options.items()), "-jar", str(program)]

    def _choose_port(self) -> int:
        port = remembered_port(self._folder)
        if port is not None and wait(partial(is_free, port), _SHUTDOWN_SECONDS):
            return port
        port = draw_port()
        temporary_file = self._folder / f"{PORT_FILE}.new"
        temporary_file.write_text(str(port))
        temporary_file.replace(self._folder / PORT_FILE)
        return port

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.address}/subjects", timeout=_REQUEST_SECONDS) as response:  # noqa: S310 - our own
                return bool(response.status == 200)
        except (RegistryError, URLError, OSError, ValueError):
            return False

    def _settle(self) -> None:
        """At the first start, require backward compatibility of new schemas, the default of other registries."""
        marker = self._folder / "configured"
        if not marker.exists():
            body = json.dumps({"compatibility": "BACKWARD"}).encode()
            headers = {"Content-Type": "application/json"}
            request = Request(f"{self.address}/config", data=body, headers=headers, method="PUT")  # noqa: S310 - our own
            with urlopen(request, timeout=_REQUEST_SECONDS * 5):  # noqa: S310
                marker.touch()

    def _last_error(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return next((line.strip() for line in reversed(lines) if "ERROR" in line or "Exception" in line), "")


def _unpacked(settings: Settings) -> Path:
    """Return the program, unpacked next to its archive, once for all homes."""
    (archive,) = ensure_jars(settings, "registry")
    folder = archive.with_name(archive.name.removesuffix(".tar.gz"))
    with hold_lock(archive.with_name("lock"), _LOCK_SECONDS):
        if not folder.is_dir():
            temporary_folder = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(temporary_folder, ignore_errors=True)
            with tarfile.open(archive) as tar:
                tar.extractall(temporary_folder, filter="data")
            temporary_folder.replace(folder)
    (program,) = folder.glob("*-runner.jar")
    return program


@contextmanager
def running_registry(settings: Settings) -> Iterator[str]:
    """Yield the address of a registry; start the embedded one if necessary, as ``running_broker`` does."""
    if settings.registry_url:
        yield settings.registry_url
        return
    with EmbeddedRegistry(settings).run_if_needed() as address:
        yield address
