"""Requests that are made from the OpenAPI document, to a real server: each answer is as the document says."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import schemathesis
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from lakehouse_tests.helpers.api_servers import ApiServer, api_server
from lakehouse_tests.helpers.tables.feeds import append_changes
from lakehouse_tests.helpers.tables.logs import WrittenTable

TOKEN = "s3cret"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
NAMES = ("", "/{table}", "/{table}/rows", "/{table}/aggregates", "/{table}/changes", "/{table}/status")
PATHS = ("/v1/health", *(f"/v1/tables{name}" for name in NAMES))
WITH_OPTIONS = PATHS[2:6]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The table ``temperatures`` is declared, and has a change feed."""
    tables = tmp_path_factory.mktemp("home") / "tables"
    WrittenTable.create(tables / "temperatures").batches(3)
    append_changes(tables / "temperatures", [(1, "insert", 0, 10), (2, "insert", 1, 20)], source_version=1)
    rows = {"id": [1, 2, 3], "place": ["a", "", None], "ratio": [0.5, float("nan"), None]}
    write_deltalake(tables / "items", pa.table(rows))
    variables = {"LAKEHOUSE_SERVE_TOKEN": TOKEN, "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    with api_server(tables.parent, **variables) as server:
        yield server


@pytest.fixture(scope="module")
def document(server: ApiServer) -> Any:
    return schemathesis.openapi.from_url(f"{server.address}/openapi.json")


@pytest.mark.parametrize(
    ("path", "mode"),
    [*((path, GenerationMode.POSITIVE) for path in PATHS), *((path, GenerationMode.NEGATIVE) for path in WITH_OPTIONS)],
)
def test_every_request_gets_an_answer_of_the_document(document: Any, path: str, mode: GenerationMode) -> None:
    operation = document[path]["GET"]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def answer_as_documented(case: Any) -> None:
        _name_existing(case)
        # which columns a table has is not in the document, so a request that meets it may name an unknown one
        case.call_and_validate(headers=HEADERS, excluded_checks=[positive_data_acceptance], timeout=60)

    answer_as_documented()


def _name_existing(case: Any) -> None:
    """Let most requests name a table and a column that exist: the others end at their first part."""
    parameters, query = case.path_parameters or {}, case.query or {}
    if "table" in parameters and len(str(parameters["table"])) % 4:
        parameters["table"] = "temperatures" if case.path.endswith(("changes", "status")) else "items"
    if "column" in query and len(str(query["column"])) % 4:
        query["column"] = "ratio"


def test_the_document_describes_every_path_and_its_problems(server: ApiServer) -> None:
    document = server.request("/openapi.json").json()
    paths = {path: operations["get"] for path, operations in document["paths"].items()}
    assert set(paths) == set(PATHS)
    for operation in paths.values():
        assert list(operation["responses"]["4XX"]["content"]) == ["application/problem+json"]
        assert "422" not in operation["responses"]
    assert "security" in paths["/v1/tables"] and "security" not in paths["/v1/health"]
