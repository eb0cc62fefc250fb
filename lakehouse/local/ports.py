"""Ports on loopback: which are free, which were used before, and whether a Kafka broker answers on one."""

import json
import secrets
import socket
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
_FILE = "ports.json"
# Below the range from which systems take the ports of outgoing connections.
_LOWEST, _HIGHEST = 20_000, 32_000
_API_VERSIONS = 18


@dataclass(frozen=True)
class Ports:
    """Where a broker on loopback listens: for clients, and for its own controller."""

    broker: int
    controller: int

    @property
    def address(self) -> str:
        """What clients are given: host and port."""
        return f"{LOOPBACK}:{self.broker}"


def remembered_ports(folder: Path) -> Ports | None:
    """Return the ports that were kept in this folder, ``None`` where there are none that can be read."""
    try:
        return Ports(**json.loads((folder / _FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def draw_ports(folder: Path) -> Ports:
    """Draw two ports on which nobody listens, at random, and keep them in this folder."""
    ports = Ports(_draw(), _draw())
    written = folder / f"{_FILE}.new"
    written.write_text(json.dumps(asdict(ports)))
    written.replace(folder / _FILE)
    return ports


def _draw() -> int:
    while True:
        port = _LOWEST + secrets.randbelow(_HIGHEST - _LOWEST)
        if is_free(port):
            return port


def are_free(ports: Ports) -> bool:
    """Whether a broker could listen on these ports of the loopback address now."""
    return is_free(ports.broker) and is_free(ports.controller)


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of the loopback address now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def broker_answers(port: int, limit: float = 1.0) -> bool:
    """Whether a Kafka broker answers a request on this port, each step within ``limit`` seconds.

    An accepted connection is not enough: the socket of a dying broker still accepts.
    """
    number = secrets.randbits(31)
    request = struct.pack(">hhih", _API_VERSIONS, 0, number, -1)
    try:
        with socket.create_connection((LOOPBACK, port), timeout=limit) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 8 and struct.unpack(">ii", answer)[1] == number
