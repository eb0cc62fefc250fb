"""What a request may take: bytes of a page, memory and time of a query, queries at once, and time for its head."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import uvicorn
from deltalake import write_deltalake

from lakehouse.ledger.versions import TableVersion, find_version
from lakehouse.serve import database as database_module
from lakehouse.serve import server as serving_process
from lakehouse.serve.database import MEGABYTE, Database, Statement, _execute, count_rows
from lakehouse.serve.models import RequestError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.api_servers import api_server
from lakehouse_tests.helpers.waiting import wait_until

ENDLESS = Statement("SELECT count(*) FROM range(9000000000000000) WHERE hash(range) = ?", [1])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with forty rows of a hundred kilobytes, and one with a row of two megabytes."""
    home = tmp_path_factory.mktemp("home")
    write_deltalake(home / "tables" / "texts", pa.table({"id": range(40), "text": ["x" * 100_000] * 40}))
    write_deltalake(home / "tables" / "long", pa.table({"id": [1], "text": ["é" * MEGABYTE]}))
    return home


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=home, _env_file=None)


@pytest.fixture
def texts(settings: Settings) -> TableVersion:
    return find_version(settings.table_uri("texts"), "texts")


def test_a_page_has_no_more_bytes_than_its_limit_and_the_next_ones_have_the_other_rows(home: Path) -> None:
    with api_server(home, "--page-size", "1") as server:
        ids: list[int] = []
        path, pages = "/tables/texts/rows?limit=20", 0
        while path:
            response = server.request(path)
            assert response.status_code == 200
            assert len(response.content) < 1.01 * MEGABYTE
            ids += [row["id"] for row in response.json()["rows"]]
            path, pages = response.json()["next"], pages + 1
        assert ids == [*range(40)]
        assert pages == 5, "nine rows fit into a page"
        problem = server.problem("/tables/long/rows")
        assert (problem["status"], problem["detail"]) == (400, "A row has more than the 1 MB of a page.")
        assert "columns=" in problem["action"] and "--page-size" in problem["action"]
        assert len(server.read("/tables/long/rows", columns="id")["rows"]) == 1


def test_a_query_that_needs_too_much_memory_is_refused_with_what_to_do(
    settings: Settings, texts: TableVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_LEAST_MEMORY", 20 * MEGABYTE)
    database = Database.open(settings, 60, page_bytes=MEGABYTE)
    large_list = Statement("SELECT list(range || repeat('x', 1000)) AS list FROM range(1000000)")
    with pytest.raises(
        RequestError, match="more than the 20 MB of memory .* Ask for fewer columns .* --page-size"
    ) as error:
        database.fetch(large_list, texts)
    assert error.value.status == 503
    assert database.fetch(count_rows(texts), texts) == [{"rows": 40}]


class SmallMemory:
    """A cursor that sorts only on the disk: the first rows of a result do not fit into its memory."""

    def __init__(self) -> None:
        self.settings: list[str] = []

    def execute(self, sql: str, _: object = None) -> "SmallMemory":
        if sql.startswith("SET "):
            self.settings.append(sql)
        elif not self.settings:
            raise duckdb.OutOfMemoryException("too large")
        return self


def test_first_rows_that_do_not_fit_into_memory_are_sorted_on_the_disk() -> None:
    cursor = SmallMemory()
    connection: Any = cursor
    assert _execute(connection, Statement("SELECT 1"), lambda result: result) is connection
    assert cursor.settings == ["SET disabled_optimizers = 'top_n'", "SET disabled_optimizers = ''"]


def test_no_more_queries_run_at_once_than_there_are_connections(settings: Settings, texts: TableVersion) -> None:
    database = Database.open(settings, 0.3, count=2)
    has_begun = [Event(), Event()]

    def run_endless(event: Event) -> None:
        event.set()
        with pytest.raises(RequestError, match="was interrupted"):
            Database(settings, 2.0, MEGABYTE, database.connections).fetch(ENDLESS, texts)

    threads = [Thread(target=run_endless, args=(event,)) for event in has_begun]
    for thread in threads:
        thread.start()
    assert all(event.wait(10) for event in has_begun)
    assert wait_until(database.connections.empty)
    with pytest.raises(RequestError, match="no more run at once than the machine has cores") as error:
        database.fetch(count_rows(texts), texts)
    assert error.value.status == 503
    for thread in threads:
        thread.join()
    assert wait_until(lambda: database.connections.qsize() == 2), "both queries have ended"
    assert database.fetch(count_rows(texts), texts) == [{"rows": 40}]


@contextmanager
def slow_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A server that answers each request after a second, and waits for a head for half a second."""
    monkeypatch.setattr(serving_process, "_HEAD_SECONDS", 0.5)

    async def answer(_: Any, receive: Any, send: Any) -> None:
        import asyncio

        await receive()
        await asyncio.sleep(1)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            answer, http=serving_process.TimedProtocol, ws="none", lifespan="off", log_level="error"
        )
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield listener.getsockname()
        server.should_exit = True
        thread.join()


HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("start", [b"", b"G", HEAD])
def test_a_connection_without_a_whole_head_is_closed_after_some_seconds(
    monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    with slow_server(monkeypatch) as address, socket.create_connection(address, timeout=10) as connection:
        connection.sendall(start)
        assert connection.recv(99) == b""


def test_a_request_whose_answer_takes_longer_than_its_head_may_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_server(monkeypatch) as address, socket.create_connection(address, timeout=10) as connection:
        connection.sendall(HEAD)
        connection.sendall(b"\r\n")
        assert connection.recv(999).startswith(b"HTTP/1.1 200")
        connection.sendall(HEAD)
        assert wait_until(lambda: connection.recv(999) == b"", 10), "half a head after the first answer"
