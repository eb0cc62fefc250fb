"""Proposals for records of OpenTelemetry, and for records with attributes in its form."""

import json
from typing import Any

import pytest

from lakehouse.cli.proposed_file import declaration_text
from lakehouse.declaration import StreamTable
from lakehouse.declaration.inference.proposal import propose

RECORD = {"timeUnixNano": "1767225600000000001", "body": {"stringValue": "a"}, "severityNumber": 9}
RESOURCE = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}


def logs(*records: Any) -> bytes:
    scopes = [{"scope": {"name": "s"}, "logRecords": list(records)}]
    return json.dumps({"resourceLogs": [{"resource": RESOURCE, "scopeLogs": scopes}]}).encode()


def test_the_file_of_proposed_logs_decodes_them() -> None:
    proposal = propose([logs(RECORD), logs(), b'{"resourceLogs": []}'])
    namespace: dict[str, Any] = {"__file__": "logs.py"}
    exec(compile(declaration_text("logs", ["logs"], proposal), "logs.py", "exec"), namespace)  # noqa: S102 - our own text
    table = namespace["logs"]
    assert isinstance(table, StreamTable)
    (row,) = table.decode_rows(logs(RECORD))
    assert isinstance(row, dict)
    assert (row["body"], row["severity_number"], row["scope"]) == ("a", 9, "s")
    assert (row["resource"], str(row["time"])[:19]) == ([("service.name", "shop")], "2026-01-01 00:00:00")
    (unknown_time,) = table.decode_rows(logs({"timeUnixNano": "0"}))
    assert isinstance(unknown_time, dict)
    assert unknown_time["time"] is None


@pytest.mark.parametrize("content", [{"id": 1}, {"resourceLogs": [], "id": 1}, {"resourceLogs": {}}])
def test_records_that_are_not_all_logs_are_proposed_by_their_fields(content: dict[str, Any]) -> None:
    values = [json.dumps(content).encode()] + ([logs(RECORD)] if "id" in content else [])
    assert propose(values).rows_from is None


def test_attributes_of_other_records_are_a_map() -> None:
    content = {"id": 1, "labels": RESOURCE["attributes"], "tags": [{"key": "a", "value": "b"}], "none": [{"key": "a"}]}
    columns = {column.name: column for column in propose([json.dumps(content).encode()]).columns}
    assert (columns["labels"].type, columns["labels"].written) == ("MAP<STRING, STRING>", "otlp")
    assert [columns[name].type for name in ("tags", "none")] == [
        "ARRAY<STRUCT<key: STRING, value: STRING>>",
        "ARRAY<STRUCT<key: STRING>>",
    ]
