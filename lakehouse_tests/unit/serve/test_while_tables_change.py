"""Twenty clients read while a table changes: no request fails, and no answer mixes versions."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_tests.helpers.api_servers import ApiServer, api_server
from lakehouse_tests.helpers.waiting import wait_until

CLIENTS = 20
VERSIONS = 30
ROWS = 40


def rows_of(version: int) -> list[dict[str, int]]:
    """The rows of a version: each row has its number, and their count changes."""
    return [{"id": id_, "written_by": version} for id_ in range(ROWS + version)]


def write_version(folder: Path, version: int) -> None:
    """Write a version; every third as a delete and appends in one commit would be, by replacing all rows."""
    write_deltalake(folder, pa.Table.from_pylist(rows_of(version)), mode="overwrite")


def read_all_pages(server: ApiServer, path: str) -> tuple[int, list[dict[str, Any]], int]:
    """Follow the pages; return their only version, all rows, and the number of pages."""
    answer = server.read(path)
    version, rows, pages = answer["version"], answer["rows"], 1
    while answer["next"]:
        answer = server.read(answer["next"])
        assert answer["version"] == version
        rows += answer["rows"]
        pages += 1
    return version, rows, pages


def read_until(server: ApiServer, client: int, is_over: Event, answered_versions: list[int]) -> None:
    """Read in one of four ways until the last version was seen; add the version of each answer."""
    version, tag = 0, ""
    while not (is_over.is_set() and version == VERSIONS - 1):
        if client % 4 == 0:
            version, rows, pages = read_all_pages(server, "/tables/numbers/rows?limit=15")
            assert rows == rows_of(version) and pages > 2
        elif client % 4 == 1:
            answer = server.read("/tables/numbers/rows", limit=1_000)
            version = answer["version"]
            assert answer["rows"] == rows_of(version)
        elif client % 4 == 2:
            answer = server.read("/tables/numbers/aggregates", column="written_by")
            version, (group,) = answer["version"], answer["groups"]
            assert (group["rows"], group["minimum"], group["maximum"]) == (ROWS + version, version, version)
        else:
            response = server.request("/tables/numbers", headers={"If-None-Match": tag})
            assert response.status_code in (200, 304), response.text
            tag, version = response.headers["ETag"], int(response.headers["ETag"].strip('"').split("-")[0])
            assert response.status_code == 304 or response.json()["rows"] == ROWS + version
        answered_versions.append(version)


@pytest.mark.timeout(300)
def test_each_answer_has_the_rows_of_its_version_while_commits_are_made(tmp_path: Path) -> None:
    folder = tmp_path / "tables" / "numbers"
    write_version(folder, 0)
    is_over, answered_versions = Event(), list[int]()

    def is_answered(version: int) -> bool:
        return version in answered_versions

    with api_server(tmp_path) as server, ThreadPoolExecutor(CLIENTS) as threads:
        clients = [threads.submit(read_until, server, client, is_over, answered_versions) for client in range(CLIENTS)]
        try:
            for version in range(1, VERSIONS):
                write_version(folder, version)
                # the clients read meanwhile
                assert version % 5 or wait_until(partial(is_answered, version), 60)
        finally:
            is_over.set()
        for client in clients:
            client.result()
    assert DeltaTable(folder).version() == VERSIONS - 1
