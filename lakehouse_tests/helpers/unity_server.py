"""A double of Unity Catalog on loopback: it keeps tables, and is as strict as the server of version 0.6.

It has no update, needs the token, and refuses unknown fields, a name that exists, and a location within another table.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "t0ken-of-the-catalog"
_PATH = "/api/2.1/unity-catalog/tables"
_FIELDS = {
    *("name", "catalog_name", "schema_name", "table_type", "data_source_format"),
    *("columns", "storage_location", "comment", "properties"),
}
_COLUMN_FIELDS = {"name", "type_text", "type_json", "type_name", "position", "nullable", "comment", "partition_index"}
_TYPES = {
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY", "STRUCT", "MAP"),
}
Answer = tuple[int, dict[str, Any]]


class UnityServer:
    """The tables that a server has by their full names, and the requests to it, each as method and name.

    ``answer`` is what every request gets instead, with this status, message and address of a redirect, and ``text``
    replaces the body of each answer. ``refused_creations`` are the statuses that the next creations get.
    """

    def __init__(self) -> None:
        self.address = ""
        self.schemas = {"main.lake"}
        self.tables: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.tokens: set[str | None] = set()
        self.answer: tuple[int, str, str] | None = None
        self.text = ""
        self.refused_creations = list[int]()

    def take_requests(self) -> list[tuple[str, str]]:
        """Return the requests since the last call."""
        requests, self.requests = self.requests, []
        return requests

    def respond(self, method: str, path: str, token: str | None, body: Any) -> Answer:
        name = path.removeprefix(_PATH).removeprefix("/")
        self.requests.append((method, name))
        if self.answer:
            return _error(self.answer[0], "ANSWER", self.answer[1])
        if token != f"Bearer {TOKEN}":
            return _error(401, "UNAUTHENTICATED", f"Invalid access token {token}")
        if method == "POST" and path == _PATH:
            statuses = self.refused_creations
            return _error(statuses.pop(0), "REFUSED", "not now") if statuses else self._create(body)
        if method not in ("GET", "DELETE"):
            return _error(405, "METHOD_NOT_ALLOWED", method)
        if name not in self.tables:
            return _error(404, "TABLE_NOT_FOUND", name)
        return 200, self.tables[name] if method == "GET" else self._delete(name)

    def _delete(self, name: str) -> dict[str, Any]:
        del self.tables[name]
        return {}

    def _create(self, table: Any) -> Answer:
        columns = table.get("columns", [])
        schema = f"{table['catalog_name']}.{table['schema_name']}"
        name, location = f"{schema}.{table['name']}", table["storage_location"]
        if {*table} - _FIELDS or any({*column} - _COLUMN_FIELDS for column in columns):
            return _error(400, "INVALID_ARGUMENT", "Unrecognized field")
        is_known = all(column["type_name"] in _TYPES and json.loads(column["type_json"]) for column in columns)
        if (table["table_type"], table["data_source_format"]) != ("EXTERNAL", "DELTA") or not is_known:
            return _error(400, "INVALID_ARGUMENT", "Unknown type")
        if schema not in self.schemas:
            return _error(404, "SCHEMA_NOT_FOUND", schema)
        if name in self.tables:
            return _error(409, "TABLE_ALREADY_EXISTS", name)
        if any(location == table_there["storage_location"] for table_there in self.tables.values()):
            return _error(400, "LOCATION_OVERLAP", location)
        self.tables[name] = {**table, "owner": "admin", "table_id": f"id-{len(self.requests)}"}
        return 200, self.tables[name]


def _error(status: int, code: str, message: str) -> Answer:
    return status, {"error_code": code, "message": message}


@contextmanager
def unity_server() -> Iterator[UnityServer]:
    """Run a server whose schema ``main.lake`` is empty."""
    server = UnityServer()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            token = self.headers["Authorization"]
            server.tokens.add(token)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
            status, content = server.respond(self.command, self.path, token, body)
            text = (server.text or json.dumps(content)).encode()
            self.send_response(status)
            if server.answer and server.answer[2]:
                self.send_header("Location", server.answer[2])
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _handle  # noqa: N815 - names of the base class

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    server.address = f"unity+http://127.0.0.1:{http.server_port}/main.lake"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
