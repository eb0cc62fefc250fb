"""A topic of Avro records on a real broker, with schemas in a real registry or in a fake one."""

import io
import json
import ssl
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro

from lakehouse.declaration import Avro, Column, Measure, Rollup, StreamTable
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.kafka.registry_client import registry
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.tables import redeclare

RECORD = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'
FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "total", "type": "double"},
    ],
}
CUSTOMER = {"type": "record", "name": "Customer", "fields": [{"name": "name", "type": ["null", "string"]}]}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "customer", "type": ["null", CUSTOMER], "default": None},
        {"name": "total", "type": ["null", "double"]},
        *FIRST["fields"][:2],
        {"name": "channel", "type": "string", "default": "shop"},
    ],
}
COLUMNS = (
    Column("id", "DECIMAL(20,0)", "Number of the order.", required=True),
    Column("ordered_at", "TIMESTAMP", "When it was ordered, UTC.", source="at", required=True),
    Column("total", "DOUBLE", "What it costs.", between=(0, 1e6)),
    Column("customer", "STRING", "Who ordered it.", source=("customer", "name")),
)


def order_table(**changes: Any) -> StreamTable:
    """Declare a new table of nested Avro records, with a decimal key and without table partitions."""
    name = f"orders_{uuid4().hex[:12]}"
    measures = {"orders": Measure("count(*)", "BIGINT", "Orders."), "dearest": Measure("max(total)", "DOUBLE", "")}
    rollup = Rollup(f"{name}_by_customer", by=["customer"], measures=measures, doc="Orders by customer.")
    values: dict[str, Any] = dict(columns=COLUMNS, key=["id"], rollups=[rollup], format=Avro())
    return redeclare(StreamTable(name, name, "Orders.", **values), **{"partitions": 1} | changes)


def register(settings: Settings, table: StreamTable, schema: Mapping[str, Any]) -> int:
    with registry(settings) as client:
        return client.register(f"{table.topic}-value", json.dumps({**schema, "namespace": table.name}))


def body(schema: Mapping[str, Any], value: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(dict(schema)), value)
    return buffer.getvalue()


def encode_records(schema_id: int, schema: Mapping[str, Any], values: Iterable[Mapping[str, Any]]) -> list[bytes]:
    return [add_frame(schema_id, body(schema, value)) for value in values]


def settings_of(url: str, **variables: Any) -> Settings:
    return Settings(registry_url=url, **variables)


Answer = tuple[int, str]  # status and body
_UNKNOWN: Answer = 404, '{"error_code": 40403, "message": "not found"}'
_REFUSAL: Answer = 401, '{"error_code": 401, "message": "not allowed"}'


@dataclass(frozen=True)
class RegistryRequest:
    """A request that a registry received: its path and its Authorization header."""

    path: str
    authorization: str | None


def schema_answer(schema: Any, **fields: Any) -> Answer:
    """Return the answer of a registry with this schema, given as text or as an object."""
    return 200, json.dumps({"schema": schema if isinstance(schema, str) else json.dumps(schema), **fields})


@contextmanager
def answering_registry(
    answers: Mapping[str, Answer],
    allowed_headers: Collection[str] = (),
    certificate: tuple[Path, Path] | None = None,
) -> Iterator[tuple[str, list[RegistryRequest]]]:
    """Run a fake registry with one answer per path; yield its address and the list of requests.

    With ``allowed_headers`` it refuses every other Authorization header. With a certificate and its key it uses TLS.
    """
    requests = list[RegistryRequest]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(RegistryRequest(self.path, self.headers.get("Authorization")))
            status, answer = answers.get(self.path.removesuffix("?deleted=true"), _UNKNOWN)
            if allowed_headers and requests[-1].authorization not in allowed_headers:
                status, answer = _REFUSAL
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
