"""A PostgreSQL server of the tests, with logical decoding."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from lakehouse.local.embedded import draw_port
from lakehouse.local.process import Child
from lakehouse_tests.helpers.waiting import wait_until

_ACCOUNT = "postgres"  # the server refuses to run as root
_OPTIONS = {
    "wal_level": "logical",
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "timezone": "UTC",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
}


def program(name: str) -> Path | None:
    """Return a program of the newest PostgreSQL of this machine; ``None`` if it is not installed."""
    on_path = shutil.which(name)
    programs = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return programs[-1] if programs else Path(on_path) if on_path else None


class Postgres:
    """A running server; each test uses a database of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = draw_port()
        self._child: Child | None = None

    def initialize(self) -> None:
        command = [*_as_account(), str(program("initdb")), "--pgdata", str(self.folder / "data")]
        options = ["--auth", "trust", "--username", _ACCOUNT, "--encoding", "UTF8", "--locale", "C.UTF-8"]
        subprocess.run([*command, *options], check=True, capture_output=True, timeout=120, cwd=self.folder)

    def start(self) -> None:
        options = [part for name, value in _OPTIONS.items() for part in ("-c", f"{name}={value}")]
        sockets = ["-c", f"unix_socket_directories={self.folder}", "-p", str(self.port)]
        command = [*_as_account(), str(program("postgres")), "-D", str(self.folder / "data"), *options, *sockets]
        self._child = Child(command, self.folder / "server.log")
        assert wait_until(self._answers, 60.0), (self.folder / "server.log").read_text()[-2000:]

    def stop(self) -> None:
        if self._child:
            self._child.kill()

    @contextmanager
    def connect(self, database: str = "postgres") -> Iterator[psycopg.Connection[Any]]:
        address = f"host=127.0.0.1 port={self.port} user={_ACCOUNT} dbname={database}"
        with psycopg.connect(address, autocommit=True, connect_timeout=5) as connection:
            yield connection

    def run(self, *statements: str, database: str = "postgres") -> None:
        with self.connect(database) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, query: str, database: str = "postgres") -> Sequence[tuple[Any, ...]]:
        with self.connect(database) as connection:
            return connection.execute(query.encode()).fetchall()

    def _answers(self) -> bool:
        try:
            return self.rows("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False


def _as_account() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_ACCOUNT}", f"--regid={_ACCOUNT}", "--clear-groups"]


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A new server, which ends with the test."""
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-postgres-"))
    if os.geteuid() == 0:
        account = pwd.getpwnam(_ACCOUNT)
        os.chown(folder, account.pw_uid, account.pw_gid)
    server = Postgres(folder)
    try:
        server.initialize()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
