"""Object stores on loopback, as S3 speaks: one that serves a folder, and some that do not serve."""

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
    """The environment in which deltalake speaks to this port; gives the root of the tables."""
    told = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in told.items():
            patch.setenv(name, value)
        yield f"s3://{BUCKET}"


@contextmanager
def closed() -> Iterator[str]:
    """A store at a port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with environment(taken.getsockname()[1]) as root:
            yield root


@contextmanager
def hanging() -> Iterator[str]:
    """A store that takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server, environment(server.getsockname()[1]) as root:
        yield root


@contextmanager
def answering(status: int, code: str) -> Iterator[str]:
    """A store that answers everything with one error."""
    with _served(str(status), code) as root:
        yield root


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A store from which the files of a folder can be read."""
    with _served(str(folder)) as root:
        yield root


@contextmanager
def _served(*what: str) -> Iterator[str]:
    command = [sys.executable, store_server.__file__, BUCKET, *what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            with environment(int(server.stdout.readline())) as root:
                yield root
        finally:
            server.kill()
