"""A Spark Connect server that stops answering, which a real server does not do on demand."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import grpc
from pyspark.sql.connect import proto
from pyspark.sql.connect.proto.base_pb2_grpc import (
    SparkConnectServiceServicer,
    add_SparkConnectServiceServicer_to_server,
)

from lakehouse.settings.spark_conf import DELTA


class SilentService(SparkConnectServiceServicer):
    """Answers requests for the settings of each session until it is silent; a statement never ends."""

    def __init__(self) -> None:
        self.silent, self.asked = Event(), Event()
        self.over = Event()
        self.questions: list[str] = []
        self._settings: dict[str, dict[str, str]] = {}

    def Config(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer, unless the server is silent."""
        if self.silent.is_set():
            self.over.wait()
        kind = request.operation.WhichOneof("op_type")
        settings = self._settings.setdefault(request.session_id, {**DELTA})
        self.questions.append(kind)
        response = proto.ConfigResponse(session_id=request.session_id, server_side_session_id="1")
        if kind == "set":
            settings |= {pair.key: pair.value for pair in request.operation.set.pairs}
        elif kind == "unset":
            for name in request.operation.unset.keys:
                settings.pop(name, None)
        elif kind == "get_all":
            response.pairs.extend(proto.KeyValue(key=name, value=value) for name, value in settings.items())
        elif kind == "is_modifiable":
            response.pairs.extend(
                proto.KeyValue(key=name, value="true") for name in request.operation.is_modifiable.keys
            )
        elif kind == "get_with_default":
            response.pairs.extend(request.operation.get_with_default.pairs)
        else:
            response.pairs.extend(
                proto.KeyValue(key=n, value=settings.get(n, "UTC")) for n in request.operation.get.keys
            )
        return response

    def ExecutePlan(self, _request: Any, _context: Any) -> Iterator[Any]:  # noqa: N802
        """Become silent."""
        self.asked.set()
        self.silent.set()
        self.over.wait()
        yield from ()

    def AnalyzePlan(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Never answer."""
        self.over.wait()

    Interrupt = ReleaseSession = ReleaseExecute = ReattachExecute = AnalyzePlan


@contextmanager
def silent_server() -> Iterator[tuple[str, SilentService]]:
    """Run such a server; yield its address and its service."""
    server, service = grpc.server(ThreadPoolExecutor(max_workers=20)), SilentService()
    add_SparkConnectServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"sc://127.0.0.1:{port}", service
    finally:
        service.over.set()
        server.stop(0)


@contextmanager
def mute_socket() -> Iterator[str]:
    """Yield the address of a program that accepts connections and sends nothing, not even an HTTP response."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"sc://127.0.0.1:{server.getsockname()[1]}"
