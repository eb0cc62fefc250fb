"""One request of Kafka's protocol over a plain socket, without a client."""

import secrets
import socket
import struct

API_VERSIONS, SASL_HANDSHAKE = (18, 0), (17, 1)
"""The API key and the version of a request."""
_MAX_RESPONSE_BYTES = 1 << 20  # a longer response does not come from Kafka


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
