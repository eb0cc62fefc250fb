"""A server of a home: a child process on loopback, with a lock and ports. It ends with the process that started it."""

import json
import secrets
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from filelock import FileLock, Timeout

from lakehouse.errors import LakehouseError
from lakehouse.local.process import Child
from lakehouse.settings import Settings
from lakehouse.settings.addresses import LOOPBACK, PORTS_FILE, Ports

_START_SECONDS = 60.0
API_VERSIONS, SASL_HANDSHAKE = (18, 0), (17, 1)
"""The API key and the version of a request."""
_MAX_RESPONSE_BYTES = 1 << 20  # a longer response does not come from Kafka
# Below the range that systems use for outgoing connections.
_LOWEST, _HIGHEST = 20_000, 32_000


class Embedded(ABC):
    """A server of one home. The process that starts it owns it and holds its lock; the server ends with that process.

    Its data, ports and log stay in its folder: the next start continues with them.
    """

    name: ClassVar[str]
    error: ClassVar[type[LakehouseError]]

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._lock = FileLock(folder / "lock", thread_local=False)
        self._child: Child | None = None

    @property
    @abstractmethod
    def log(self) -> Path:
        """The log file of the server."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address for clients; a start may change it. Raises ``error`` before the first start."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Prepare data and ports, and return the command that runs the server in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it answers at its last address."""

    def _settle(self) -> None:  # noqa: B027 - most servers need none
        """Configure the server once it answers."""

    @property
    def pid(self) -> int | None:
        """The process id of the server; ``None`` if this object has not started one."""
        return self._child.pid if self._child else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the server; ``None`` while it runs, or if this object has not started one."""
        return self._child.exit_code if self._child else None

    def is_alive(self) -> bool:
        """Whether the server that this object started runs and answers."""
        return self._child is not None and self._child.is_alive() and self._answers()

    def start(self) -> None:
        """Start the server and return when it answers. It continues with existing data.

        It uses its stored ports, or new ones if another program uses one of them. Raises ``error`` if another process
        runs the server of this home or the start fails, ``SetupError`` if Java or jars are missing.
        """
        self.stop()
        if not self._claim():
            message = f"Another process already runs the {self.name} of this home"
            raise self.error(message, where=str(self._folder), action="Use that one, or stop it first.")
        self._launch()

    def start_or_join(self) -> bool:
        """Start the server, or wait until the one of another process answers; return whether it was started.

        Raises what ``start`` raises, and ``error`` if the other process's server does not answer.
        """
        if not wait(lambda: self._claim() or self._answers(), _START_SECONDS):
            message = f"The {self.name} that another process runs for this home does not answer"
            raise self.error(message, where=str(self.log), action="Stop that process and try again.")
        if not self._lock.is_locked:
            return False
        self._launch()
        return True

    def stop(self) -> None:
        """Stop the server, within 10 seconds, and keep its data. A second call does nothing."""
        if self._child is not None:
            self._child.stop()
            self._child = None
        self._lock.release()

    @contextmanager
    def run_if_needed(self) -> Iterator[str]:
        """Yield its address. If no process of this home runs it, it runs for the ``with`` block."""
        is_started = self.start_or_join()
        try:
            yield self.address
        finally:
            if is_started:
                self.stop()

    def _claim(self) -> bool:
        self._settings.claim_folder(self._folder.name)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        return True

    def _launch(self) -> None:
        try:
            self._child = child = Child(self._command(), self.log)
            wait(lambda: self._answers() or not child.is_alive(), _START_SECONDS)
            if not child.is_alive():
                raise self._failure(f"The {self.name} ended during its start, with exit code {child.exit_code}")
            if not self._answers():
                raise self._failure(f"The {self.name} did not answer within {_START_SECONDS:.0f} seconds")
            self._settle()
        except BaseException:
            self.stop()
            raise

    def _failure(self, message: str) -> LakehouseError:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        cause = next((line.strip() for line in reversed(lines) if "ERROR" in line or "Exception" in line), "")
        action = f"Its log says: {cause[:300]}" if cause else "Its log contains no error."
        return self.error(message, where=str(self.log), action=action)


def wait(condition: Callable[[], bool], limit: float) -> bool:
    """Wait at most ``limit`` seconds for a condition; return whether it became true."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def send_request(connection: socket.socket, request: tuple[int, int], body: bytes = b"") -> bytes:
    """Send one request and return the body of its response; ``OSError`` if the server is not a Kafka broker."""
    correlation_id = secrets.randbits(31)
    message = struct.pack(">hhih", *request, correlation_id, -1) + body
    connection.sendall(struct.pack(">i", len(message)) + message)
    size, response_id = struct.unpack(">ii", _receive(connection, 8))
    if response_id != correlation_id or not 4 <= size < _MAX_RESPONSE_BYTES:
        raise OSError("not a response of a Kafka broker")
    return _receive(connection, size - 4)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise OSError("the connection was closed")
        data += part
    return data


def draw_ports(folder: Path) -> Ports:
    """Choose two different free ports at random and store them in this folder."""
    broker = draw_port()
    ports = Ports(broker, draw_port(other_than=broker))
    temporary_file = folder / f"{PORTS_FILE}.new"
    temporary_file.write_text(json.dumps(asdict(ports)))
    temporary_file.replace(folder / PORTS_FILE)
    return ports


def draw_port(other_than: int | None = None) -> int:
    """Return a random free port of the loopback address, below the ports of outgoing connections."""
    while True:
        port = _LOWEST + secrets.randbelow(_HIGHEST - _LOWEST)
        if port != other_than and is_free(port):
            return port


def are_free(ports: Ports) -> bool:
    """Whether a broker can listen on these ports of the loopback address now."""
    return is_free(ports.broker) and is_free(ports.controller)


def is_free(port: int) -> bool:
    """Whether a server can listen on this port of the loopback address now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def accepts_connection(host: str, port: int) -> bool:
    """Whether any server accepts a connection there within three seconds."""
    try:
        socket.create_connection((host, port), timeout=3.0).close()
    except OSError:
        return False
    return True


def broker_answers(port: int, limit: float = 1.0) -> bool:
    """Whether a Kafka broker answers a request on this port, each step within ``limit`` seconds.

    An accepted connection is not enough: the socket of a dying broker still accepts connections.
    """
    try:
        with socket.create_connection((LOOPBACK, port), timeout=limit) as connection:
            send_request(connection, API_VERSIONS)
    except OSError:
        return False
    return True
