"""AWS Glue on loopback, for other processes: each request goes to moto in this process."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from botocore.exceptions import ClientError
from moto import mock_aws

REGION = "eu-central-1"
KEYS = {"aws_access_key_id": "key", "aws_secret_access_key": "s3cret"}


@contextmanager
def glue_server() -> Iterator[tuple[str, Any]]:
    """Run a server; return its address, and a client of the same tables in this process."""
    with mock_aws():
        client = boto3.client("glue", region_name=REGION, **KEYS)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                operation = self.headers["X-Amz-Target"].partition(".")[2]
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    answer = getattr(client, re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower())(**request)
                    self._send(200, answer)
                except ClientError as error:
                    self._send(400, {"__type": error.response["Error"]["Code"], "message": str(error)})

            def _send(self, status: int, content: Any) -> None:
                text = json.dumps(content, default=lambda time: time.timestamp()).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", client
        finally:
            server.shutdown()
            server.server_close()
