"""What the API refuses: each problem names what, where and what to do."""

import json
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.cli import main
from lakehouse.ledger.versions import find_version
from lakehouse.serve.database import Database, Statement, count_rows
from lakehouse.serve.models import RequestError, problem_of
from lakehouse.settings import Settings
from lakehouse_tests.helpers.api_servers import ApiServer, api_server
from lakehouse_tests.helpers.commands import error_line
from lakehouse_tests.helpers.waiting import wait_until

NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "name": ["a", "b", "c"],
        "at": pa.array([NOON] * 3, pa.timestamp("us", "UTC")),
        "local_time": pa.array([NOON.replace(tzinfo=None)] * 3, pa.timestamp("us")),
        "price": pa.array([1, 2, 3], pa.decimal128(9, 2)),
        "tags": [["x"]] * 3,
    }
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for _ in range(2):
        write_deltalake(home / "tables" / "items", ROWS, mode="append")
    return home


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[ApiServer]:
    with api_server(home) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "status", "texts"),
    [
        ("/tables/item/rows", 404, ["There is no table 'item'", "Did you mean items?"]),
        ("/tables/..%2Fitems", 404, []),
        ("/tables/%00", 404, ["Tables: items"]),
        ("/tables/items?version=9", 404, ["Version 9 of items does not exist", "the log shows 0 to 1"]),
        ("/tables/items?versoin=1", 400, ["Unknown parameter 'versoin'", "/v1/openapi.json"]),
        ("/tables/items/changes?since=0", 404, ["Table items has no change feed"]),
        ("/tables/temperature/status", 404, ["is not declared", "Did you mean temperatures?"]),
        ("/nothing", 404, ["/v1/openapi.json"]),
        ("/tables/", 404, []),
        ("/tables/items/rows?nam=a", 400, ["parameter nam", "Did you mean name? Columns: id, name, at"]),
        ("/tables/items/rows?columns=prise", 400, ["parameter columns", "Did you mean price?"]),
        ("/tables/items/rows?order=-nam", 400, ["parameter order", "Did you mean name?"]),
        ("/tables/items/rows?id=one", 400, ["'one' is not a value of type BIGINT", "Write a number"]),
        ("/tables/items/rows?price=1.001", 400, ["'1.001' is not a value of type DECIMAL(9,2)"]),
        ("/tables/items/rows?price=99999999", 400, ["is not a value of type DECIMAL(9,2)"]),
        ("/tables/items/rows?at=2023-01-01", 400, ["has no time zone", "2026-11-01T00:00:00Z"]),
        ("/tables/items/rows?local_time=2023-01-01T00:00:00Z", 400, ["without a zone"]),
        ("/tables/items/rows?tags=x", 400, ["have no filter"]),
        ("/tables/items/rows?name.from=a", 400, ["neither times nor numbers"]),
        ("/tables/items/rows?at.until=2023-01-01T00:00:00Z", 400, ["has no column 'at.until'"]),
        ("/tables/items/rows?limit=10001", 400, ["parameter limit", "10000"]),
        ("/tables/items/rows?limit=all", 400, ["parameter limit"]),
        ("/tables/items/rows?page=x", 400, ["is not the token of a page"]),
        ("/tables/items/rows?page=WzEsIDEsICJ4Il0", 400, ["belongs to other parameters"]),
        ("/tables/items/rows?page=WzEsIC0xLCAieCJd", 400, ["is not the token of a page"]),
        ("/tables/items/rows?page=W10", 400, ["is not the token of a page"]),
        ("/tables/items/aggregates", 400, ["parameter column"]),
        ("/tables/items/aggregates?column=name", 400, ["has no average", "Numeric columns: id, price"]),
        ("/tables/items/aggregates?column=id&period=week", 400, ["parameter period"]),
        ("/tables/items/aggregates?column=id&period=day", 400, ["needs time too", "at, local_time"]),
        ("/tables/items/aggregates?column=id&period=day&time=id", 400, ["not a time"]),
        ("/tables/items/aggregates?column=id&time=at", 400, ["needs period too"]),
        ("/tables/items/changes", 400, ["parameter since"]),
        (f"/tables/items/rows?name={'x' * 8_200}", 414, ["longer than 8,192 bytes"]),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)
def test_a_request_that_cannot_be_answered_is_a_problem(
    server: ApiServer, path: str, status: int, texts: list[str]
) -> None:
    problem = server.problem(path)
    assert problem["status"] == status
    text = " ".join(str(value) for value in problem.values())
    assert [part for part in texts if part not in text] == []


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"data": "x"}, 413),
        pytest.param({"data": iter([b"x"])}, 413, id="in parts"),
        ({"headers": {"Host": "tables.example"}}, 421),
        ({"headers": {"Host": "a_b.example:8000"}}, 421),
        ({"headers": {"Host": "[localhost"}}, 421),
        ({"headers": {"Host": "x@localhost"}}, 421),
        ({"headers": {"Host": ""}}, 421),
        ({"method": "POST"}, 405),
        ({"method": "DELETE"}, 405),
    ],
    ids=str,
)
def test_a_request_that_does_not_only_read_or_is_for_another_host_is_refused(
    server: ApiServer, options: dict[str, Any], status: int
) -> None:
    assert server.problem("/tables", **options)["status"] == status


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST:1", "[::1]:8000"])
def test_each_name_of_this_machine_is_accepted(server: ApiServer, host: str) -> None:
    assert server.request("/tables", headers={"Host": host}).status_code == 200


def test_a_page_of_other_parameters_is_refused(server: ApiServer) -> None:
    page = server.read("/tables/items/rows", limit=1)["next"].split("page=")[1]
    assert server.read("/tables/items/rows", limit=1, page=page)["rows"]
    for parameters in ({"limit": 2}, {"limit": 1, "id": 1}, {"limit": 1, "order": "id"}):
        assert server.problem("/tables/items/rows", params={**parameters, "page": page})["status"] == 400


VIEWS = """
from lakehouse import View
items_in_stock = View("items_in_stock", "SELECT 1 AS id", "An item.")
counts = View("counts", "SELECT 1 AS items", "One count.", materialized=True)
"""


@pytest.fixture(scope="module")
def troubled_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables that lose files or cannot be read, and views, of which one does not store its rows any more."""
    home = tmp_path_factory.mktemp("troubled")
    (home / "lake_views").mkdir()
    (home / "lake_views" / "views.py").write_text(VIEWS)
    for name in ("deleted", "damaged", "items_in_stock", "counts"):
        write_deltalake(home / "tables" / name, ROWS)
    (home / "tables" / "damaged" / "_delta_log" / f"{0:020}.json").write_text("")
    return home


@pytest.fixture(scope="module")
def troubled_server(troubled_home: Path) -> Iterator[ApiServer]:
    with api_server(troubled_home, LAKEHOUSE_DECLARATIONS=str(troubled_home / "lake_views")) as server:
        yield server


def test_a_version_whose_files_are_gone_is_named(troubled_home: Path, troubled_server: ApiServer) -> None:
    folder = troubled_home / "tables" / "deleted"
    following = troubled_server.read("/tables/deleted/rows", limit=1)["next"]
    table = DeltaTable(folder)
    table.delete("id = 1")
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    problem = troubled_server.problem(following)
    assert (problem["status"], problem["where"]) == (410, str(folder))
    assert "Files of version 0 of deleted are gone" in problem["detail"]


def test_a_table_that_cannot_be_read_is_listed_with_its_problem(troubled_server: ApiServer) -> None:
    (table,) = (table for table in troubled_server.read("/tables")["tables"] if table["name"] == "damaged")
    assert table["version"] is None and "Version 0 of damaged is incomplete" in table["problem"]
    assert troubled_server.problem("/tables/damaged")["status"] == 500


def test_rows_that_a_view_no_longer_stores_are_not_served(troubled_server: ApiServer) -> None:
    names = [table["name"] for table in troubled_server.read("/tables")["tables"]]
    assert names == ["counts", "damaged", "deleted"]
    assert len(troubled_server.read("/tables/counts/rows")["rows"]) == 3
    problem = troubled_server.problem("/tables/items_in_stock/rows")
    assert (problem["status"], problem["detail"]) == (404, "The rows of view items_in_stock are not stored.")


def test_a_query_that_takes_too_long_is_interrupted_and_others_go_on(home: Path) -> None:
    database = Database.open(Settings(home=home, _env_file=None), seconds=0.2)
    version = find_version(str(home / "tables" / "items"), "items")
    threads = threading.active_count()
    endless = Statement("SELECT count(*) FROM range(9000000000000000) WHERE hash(range) = ?", [1])
    with pytest.raises(RequestError, match="took longer than 0.2 seconds, and was interrupted") as error:
        database.fetch(endless, version)
    response = problem_of(error.value)
    assert response.status_code == 504
    assert "--time-limit" in json.loads(bytes(response.body))["action"]
    assert wait_until(lambda: threading.active_count() == threads), "the query has ended"
    assert replace(database, seconds=60).fetch(count_rows(version), version) == [{"rows": 6}]


def test_with_a_token_each_request_except_health_needs_it(home: Path) -> None:
    with api_server(home, LAKEHOUSE_SERVE_TOKEN="s3cret") as server:
        assert server.request("/health").status_code == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
            response = server.request("/tables", headers=headers)
            assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert response.headers["Content-Type"] == "application/problem+json"
            assert server.problem("/tables/items/rows?limit=0", headers=headers)["status"] == 401
        headers = {"Authorization": "Bearer s3cret", "Host": "tables.example"}
        assert server.request("/tables", headers=headers).status_code == 200
        code, out, err = server.stop()
    assert "s3cret" not in out + err
    assert (code, err) == (130, "")


def test_an_address_that_others_reach_needs_a_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(home))
    monkeypatch.delenv("LAKEHOUSE_SERVE_TOKEN", raising=False)
    for host in ("0.0.0.0", "::", "192.0.2.1", "tables.example"):  # noqa: S104 - refused
        assert "LAKEHOUSE_SERVE_TOKEN must be set" in error_line("serve", "--host", host, code=main.WRONG_USE)


def test_a_time_limit_is_at_most_a_day() -> None:
    assert "86400" in error_line("serve", "--time-limit", str(10**12), code=main.WRONG_USE)


def test_a_port_in_use_is_named(server: ApiServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = server.address.split(":")[2].removesuffix("/v1")
    monkeypatch.setenv("LAKEHOUSE_HOME", str(home))
    assert f"Port {port} of 127.0.0.1 cannot be used" in error_line("serve", "--port", port)


def test_a_signal_ends_the_server(home: Path) -> None:
    """As with a token, where the signal is SIGINT."""
    with api_server(home) as server:
        server.read("/tables")
        code, _, err = server.stop(signal.SIGTERM)
    assert (code, err) == (130, "")
