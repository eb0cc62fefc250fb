"""The embedded servers of a home: a real Kafka broker and a real schema registry as child processes on loopback."""

import fcntl
import json
import shutil
import subprocess
import tarfile
from base64 import urlsafe_b64encode
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen
from uuid import uuid4

from lakehouse.errors import BrokerError, RegistryError
from lakehouse.local.embedded import Embedded, are_free, broker_answers, draw_port, draw_ports, is_free, wait
from lakehouse.local.jars import ensure_jars
from lakehouse.local.java import find_java
from lakehouse.local.process import hold_lock
from lakehouse.settings import Settings, addresses

_HERE = Path(__file__).parent
_FORMAT_SECONDS = 60.0
_SHUTDOWN_SECONDS = 5.0
_REQUEST_SECONDS = 2.0
_LOCK_SECONDS = 120.0  # to wait for another process that unpacks the program


class Kafka:
    """Kafka in one folder, with its data, its properties and its log."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._data = folder / "data"
        self._properties = folder / "server.properties"
        self.log = folder / "broker.log"

    @property
    def is_in_use(self) -> bool:
        """Whether a broker still uses the data: it takes a moment to end after its parent was killed."""
        lock = self._data / ".lock"
        if not lock.exists():
            return False
        with lock.open("ab") as handle:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def command(self, ports: addresses.Ports) -> list[str]:
        """Write the properties for these ports; return the command that runs the broker in the foreground."""
        client, controller = f"PLAINTEXT://{ports.address}", f"{addresses.LOOPBACK}:{ports.controller}"
        address_properties = (
            f"listeners={client},CONTROLLER://{controller}\n"
            f"advertised.listeners={client}\n"
            f"controller.quorum.voters=1@{controller}\n"
            f"log.dirs={_escape_property(str(self._data))}\n"
        )
        self._properties.write_text((_HERE / "broker.properties").read_text() + address_properties)
        return [*self._java("512m"), "kafka.Kafka", str(self._properties)]

    def format(self) -> bool:
        """Format the data folder with the last written properties; a formatted folder stays unchanged.

        Return whether it is formatted now. If not, the log has the reason.
        """
        if (self._data / "meta.properties").exists():
            return True
        tool = [*self._java("128m"), "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        command = [*tool, "--cluster-id", new_cluster_id(), "--config", str(self._properties)]
        with self.log.open("ab") as output:
            try:
                result = subprocess.run(command, stdout=output, stderr=output, check=False, timeout=_FORMAT_SECONDS)
            except subprocess.TimeoutExpired:
                return False
            return result.returncode == 0

    def _java(self, memory: str) -> list[str]:
        flags = [f"-Xmx{memory}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        logging = f"-Dlog4j2.configurationFile={(_HERE / 'kafka-log4j2.properties').as_uri()}"
        class_path = ":".join(str(jar) for jar in ensure_jars(self._settings, "broker"))
        return [str(find_java().path), *flags, logging, "-cp", class_path]


def _escape_property(text: str) -> str:
    """Escape a value of a Java properties file: non-ASCII characters become UTF-16 code units."""
    code_units = text.encode("utf-16-be").hex("-", 2).split("-")
    return "".join(f"\\u{unit}" if int(unit, 16) > 0x7F else chr(int(unit, 16)) for unit in code_units)


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's format that does not start with a dash, as an option would."""
    while True:
        text = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class EmbeddedBroker(Embedded):
    """The broker of one home, in ``HOME/broker``."""

    name = "broker"
    error = BrokerError

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, addresses.broker_folder(settings))
        self._kafka = Kafka(settings, self._folder)

    @property
    def log(self) -> Path:
        """The log file of the broker."""
        return self._kafka.log

    @property
    def address(self) -> str:
        """Host and port for clients; a start may change them. Raises ``BrokerError`` before the first start."""
        return addresses.embedded_ports(self._settings).address

    def _command(self) -> list[str]:
        command = self._kafka.command(self._choose_ports())
        if not self._kafka.format():
            raise self._failure("The broker's data folder could not be prepared")
        return command

    def _answers(self) -> bool:
        ports = addresses.remembered_ports(self._folder)
        return ports is not None and broker_answers(ports.broker)

    def _choose_ports(self) -> addresses.Ports:
        ports = addresses.remembered_ports(self._folder)
        if ports is None:
            return draw_ports(self._folder)
        wait(lambda: not self._kafka.is_in_use and are_free(ports), _SHUTDOWN_SECONDS)
        if self._kafka.is_in_use:
            message = "Another broker still uses the data of this home"
            raise BrokerError(message, where=str(self._folder), action="Stop that broker and try again.")
        return ports if are_free(ports) else draw_ports(self._folder)


def running_broker(settings: Settings) -> AbstractContextManager[str]:
    """Yield the address of a broker; start the embedded one if necessary.

    A configured broker is yielded unchanged, and so is the embedded one if another process of this home runs or
    starts it. Otherwise the embedded broker runs for the ``with`` block and stops after it.
    """
    address = settings.kafka_bootstrap_servers
    return nullcontext(address) if address else EmbeddedBroker(settings).run_if_needed()


class EmbeddedRegistry(Embedded):
    """The schema registry of one home, in ``HOME/registry``: Apicurio, with Confluent's API."""

    name = "registry"
    error = RegistryError

    def __init__(self, settings: Settings) -> None:
        addresses.require_own_registry(settings)
        super().__init__(settings, addresses.registry_folder(settings))

    @property
    def log(self) -> Path:
        """The log file of the registry."""
        return self._folder / "registry.log"

    @property
    def address(self) -> str:
        """The URL of its API; a start may change the port. Raises ``RegistryError`` before the first start."""
        return addresses.registry_url(self._settings)

    def _command(self) -> list[str]:
        program = _unpacked(self._settings)
        port = self._choose_port()
        data = self._folder / "data"
        options = {
            "quarkus.http.host": addresses.LOOPBACK,
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
        port = addresses.remembered_port(self._folder)
        if port is not None and wait(partial(is_free, port), _SHUTDOWN_SECONDS):
            return port
        port = draw_port()
        temporary_file = self._folder / f"{addresses.PORT_FILE}.new"
        temporary_file.write_text(str(port))
        temporary_file.replace(self._folder / addresses.PORT_FILE)
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


def running_registry(settings: Settings) -> AbstractContextManager[str]:
    """Yield the address of a registry; start the embedded one if necessary, as ``running_broker`` does."""
    return nullcontext(settings.registry_url) if settings.registry_url else EmbeddedRegistry(settings).run_if_needed()
