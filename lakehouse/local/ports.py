"""Loopback ports: which are free, and whether a server, or a Kafka broker, answers on one."""

import json
import secrets
import socket
import struct
from dataclasses import asdict
from pathlib import Path

from lakehouse.settings.addresses import LOOPBACK, PORTS_FILE, Ports

API_VERSIONS, SASL_HANDSHAKE = (18, 0), (17, 1)
"""The API key and the version of a request."""
_MAX_RESPONSE_BYTES = 1 << 20  # a longer response does not come from Kafka
# Below the range that systems use for outgoing connections.
_LOWEST, _HIGHEST = 20_000, 32_000


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


def accepts_connection(host: str, port: int, limit: float = 3.0) -> bool:
    """Whether any server accepts a connection there within ``limit`` seconds."""
    try:
        socket.create_connection((host, port), timeout=limit).close()
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
