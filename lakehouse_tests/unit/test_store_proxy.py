"""The proxy in front of a store passes on what it gets, counts it, and injects exactly the faults of a test."""

import http.client
import socket
from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSystem

from lakehouse_tests.helpers.tables.proxy_server import Fault
from lakehouse_tests.helpers.tables.seaweed import running_store
from lakehouse_tests.helpers.tables.store_proxy import StoreProxy, running_proxy

ROWS = pa.table({"id": [1, 2, 3]})
OPTIONS = {"timeout": "5s", "max_retries": "2", "retry_timeout": "5s", "backoff_config.init_backoff": "10ms"}


@pytest.fixture(scope="module")
def started_proxy() -> Iterator[StoreProxy]:
    with running_store() as store, running_proxy(store) as proxy:
        yield proxy


@pytest.fixture
def proxy(started_proxy: StoreProxy) -> StoreProxy:
    started_proxy.clear_faults()
    started_proxy.reset()
    return started_proxy


@pytest.fixture
def uri(proxy: StoreProxy, request: pytest.FixtureRequest) -> str:
    return f"s3://bucket/{request.node.originalname}/{uuid4().hex}"


def append(uri: str) -> None:
    write_deltalake(uri, ROWS, mode="append", storage_options=OPTIONS)


def count_rows(uri: str) -> int:
    return DeltaTable(uri, storage_options=OPTIONS).to_pyarrow_table().num_rows


def commits(proxy: StoreProxy) -> list[tuple[str, int, bool, str]]:
    requests = [request for request in proxy.requests() if request.method == "PUT" and "/_delta_log/" in request.path]
    return [(request.path[-6:], *request[3:]) for request in requests]


def test_a_table_is_written_and_read_through_it_and_each_request_is_counted(proxy: StoreProxy, uri: str) -> None:
    for _ in range(3):
        append(uri)
    assert count_rows(uri) == 9
    assert commits(proxy) == [(f"{number}.json", 200, True, "") for number in range(3)]
    kinds = Counter((request.method, request.status) for request in proxy.requests())
    assert kinds["PUT", 200] == 6
    assert not any(request.is_conditional for request in proxy.requests() if request.path.endswith(".parquet"))
    assert kinds["GET", 200] + kinds["GET", 206] > 6
    assert any("list-type=2" in request.query and request.path == "/bucket" for request in proxy.requests())
    proxy.reset()
    assert proxy.requests() == []


def test_pyarrow_sends_and_gets_large_objects_through_it(proxy: StoreProxy, uri: str) -> None:
    file_system, path = FileSystem.from_uri(uri)
    content = bytes(range(256)) * 50_000
    with file_system.open_output_stream(path) as stream:
        stream.write(content)
    with file_system.open_input_stream(path) as stream:
        assert stream.read() == content
    assert {request.method for request in proxy.requests()} >= {"PUT", "GET"}


def test_it_keeps_a_connection_open_and_passes_chunks_on_after_a_100(proxy: StoreProxy) -> None:
    request = b"PUT /bucket/chunks HTTP/1.1\r\nHost: s3\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
        client.sendall(request)
        answer = client.makefile("rb")
        assert [answer.readline(), answer.readline()] == [b"HTTP/1.1 100 Continue\r\n", b"\r\n"]
        client.sendall(b"3\r\nabc\r\n0\r\n\r\n")
        assert answer.readline().startswith(b"HTTP/1.1 403")  # it has no signature
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    for _ in range(2):
        connection.request("GET", "/bucket/none")
        first_socket = connection.sock
        connection.getresponse().read()
        assert connection.sock is first_socket
    assert [request.method for request in proxy.requests()] == ["PUT", "GET", "GET"]


def test_deltalake_makes_a_commit_whose_answer_is_lost_twice(proxy: StoreProxy, uri: str) -> None:
    """It takes its own entry for that of another writer. Both entries have the same file, so no row is doubled."""
    append(uri)
    proxy.add_fault(Fault("lose answer", method="PUT", commits_only=True, times=1))
    append(uri)
    assert commits(proxy) == [
        ("0.json", 200, True, ""),
        ("1.json", 200, True, "lose answer"),
        ("1.json", 412, True, ""),
        ("2.json", 200, True, ""),
    ]
    assert count_rows(uri) == 6


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault("cut", method="PUT"), 0),
        (Fault("answer", method="PUT", status=500, code="InternalError"), 500),
        (Fault("answer", method="PUT", status=503, code="SlowDown"), 503),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_a_refused_request_is_not_forwarded_and_repeated_by_deltalake(
    proxy: StoreProxy, uri: str, fault: Fault, status: int
) -> None:
    proxy.add_fault(Fault(**{**vars(fault), "commits_only": True, "times": 1}))
    append(uri)
    assert commits(proxy) == [("0.json", status, True, fault.kind), ("0.json", 200, True, "")]
    assert count_rows(uri) == 3


def test_expired_keys_are_an_error_with_its_code(proxy: StoreProxy, uri: str) -> None:
    proxy.add_fault(Fault("answer", status=403, code="ExpiredToken"))
    with pytest.raises((DeltaError, OSError), match="ExpiredToken"):
        append(uri)
    proxy.clear_faults()
    append(uri)


def test_a_request_without_an_answer_ends_with_the_patience_of_the_client(proxy: StoreProxy, uri: str) -> None:
    proxy.add_fault(Fault("hang", path=r"_delta_log"))
    with pytest.raises((DeltaError, OSError), match="timed out"):
        write_deltalake(uri, ROWS, storage_options={**OPTIONS, "timeout": "300ms", "retry_timeout": "1s"})
    assert {request.fault for request in proxy.requests() if "_delta_log" in request.path} == {"hang"}


def test_a_commit_whose_answer_is_held_is_in_the_store(proxy: StoreProxy, uri: str) -> None:
    append(uri)
    proxy.add_fault(Fault("hold answer", method="PUT", commits_only=True))
    with pytest.raises((DeltaError, OSError), match="timed out"):
        write_deltalake(uri, ROWS, mode="append", storage_options={**OPTIONS, "timeout": "1s", "max_retries": "0"})
    assert ("1.json", 200, True, "hold answer") in commits(proxy)
    assert count_rows(uri) == 6


def test_every_second_request_is_delayed_at_most_three_times(proxy: StoreProxy, uri: str) -> None:
    proxy.add_fault(Fault("delay", method="PUT", path=r"\.json$", every=2, times=3, seconds=0.01))
    for _ in range(8):
        append(uri)
    assert [fault for *_, fault in commits(proxy)] == ["", "delay"] * 3 + ["", ""]
