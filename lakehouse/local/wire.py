"""One request of Kafka's protocol over a plain socket, for looks that need no client."""

import secrets
import socket
import struct

API_VERSIONS, SASL_HANDSHAKE = (18, 0), (17, 1)
"""Requests by number and version."""
_MOST = 1 << 20  # bytes of an answer: what is longer is none


def ask(connection: socket.socket, request: tuple[int, int], body: bytes = b"") -> bytes:
    """Send one request and return the body of its answer; ``OSError`` where what answers is no Kafka broker."""
    number = secrets.randbits(31)
    sent = struct.pack(">hhih", *request, number, -1) + body
    connection.sendall(struct.pack(">i", len(sent)) + sent)
    size, answered = struct.unpack(">ii", _received(connection, 8))
    if answered != number or not 4 <= size < _MOST:
        raise OSError("not an answer of Kafka's")
    return _received(connection, size - 4)


def _received(connection: socket.socket, size: int) -> bytes:
    held = b""
    while len(held) < size:
        part = connection.recv(size - len(held))
        if not part:
            raise OSError("the connection was closed")
        held += part
    return held
