"""Object stores on loopback with the protocol of S3: one that serves a folder, and some that fail."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehouse_tests.helpers.tables import store_server

BUCKET = "bucket"


@contextmanager
def environment(port: int) -> Iterator[str]:
    """Set the environment in which deltalake connects to this port; yield the root of the tables."""
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        yield f"s3://{BUCKET}"


@contextmanager
def unreachable_store() -> Iterator[str]:
    """Provide a store at a port without a listener."""
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        with environment(bound_socket.getsockname()[1]) as root:
            yield root


@contextmanager
def hanging() -> Iterator[str]:
    """Provide a store that accepts every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server, environment(server.getsockname()[1]) as root:
        yield root


@contextmanager
def answering(status: int, code: str) -> Iterator[str]:
    """Provide a store that answers every request with one error."""
    with _run_server(str(status), code) as root:
        yield root


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Provide a store that serves the files of a folder."""
    with _run_server(str(folder)) as root:
        yield root


@contextmanager
def _run_server(*arguments: str) -> Iterator[str]:
    command = [sys.executable, store_server.__file__, BUCKET, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            with environment(int(server.stdout.readline())) as root:
                yield root
        finally:
            server.kill()
