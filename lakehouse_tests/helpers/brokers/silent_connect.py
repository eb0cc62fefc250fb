"""A Spark Connect server that is silent, at once or from a moment on: a fault that no real one shows on demand."""

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


class Silent(SparkConnectServiceServicer):
    """Answers questions for settings, of which each session has its own, until it is silent; a statement never ends."""

    def __init__(self) -> None:
        self.silent, self.asked = Event(), Event()
        self.over = Event()
        self.questions: list[str] = []
        self._settings: dict[str, dict[str, str]] = {}

    def Config(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer, or never."""
        if self.silent.is_set():
            self.over.wait()
        kind, stand = request.operation.WhichOneof("op_type"), self._settings.setdefault(request.session_id, {**DELTA})
        self.questions.append(kind)
        told = proto.ConfigResponse(session_id=request.session_id, server_side_session_id="1")
        if kind == "set":
            stand |= {pair.key: pair.value for pair in request.operation.set.pairs}
        elif kind == "unset":
            for name in request.operation.unset.keys:
                stand.pop(name, None)
        elif kind == "get_all":
            told.pairs.extend(proto.KeyValue(key=name, value=value) for name, value in stand.items())
        elif kind == "is_modifiable":
            told.pairs.extend(proto.KeyValue(key=name, value="true") for name in request.operation.is_modifiable.keys)
        elif kind == "get_with_default":
            told.pairs.extend(request.operation.get_with_default.pairs)
        else:
            told.pairs.extend(proto.KeyValue(key=n, value=stand.get(n, "UTC")) for n in request.operation.get.keys)
        return told

    def ExecutePlan(self, _request: Any, _context: Any) -> Iterator[Any]:  # noqa: N802
        """From here on it says nothing."""
        self.asked.set()
        self.silent.set()
        self.over.wait()
        yield from ()

    def AnalyzePlan(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Never answer."""
        self.over.wait()

    Interrupt = ReleaseSession = ReleaseExecute = ReattachExecute = AnalyzePlan


@contextmanager
def silent_server() -> Iterator[tuple[str, Silent]]:
    """The address of such a server, and the server."""
    server, service = grpc.server(ThreadPoolExecutor(max_workers=20)), Silent()
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
    """The address of a program that takes connections and says nothing, not even that it speaks HTTP."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"sc://127.0.0.1:{server.getsockname()[1]}"
