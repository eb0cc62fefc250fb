"""Proposals for nested arrays and for attributes, as logs of OpenTelemetry have them."""

import json
from typing import Any

from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.inference.proposal import propose

RECORD = {"timeUnixNano": "1767225600000000001", "body": {"stringValue": "a"}, "severityNumber": 9}
RESOURCE = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}


def logs(*records: Any) -> bytes:
    scopes = [{"scope": {"name": "s"}, "logRecords": list(records)}]
    return json.dumps({"resourceLogs": [{"resource": RESOURCE, "scopeLogs": scopes}]}).encode()


def test_each_array_within_an_array_is_named_as_possible_rows() -> None:
    (warning,) = [text for text in propose([logs(RECORD)]).warnings if "rows_from=" in text]
    paths = '"resourceLogs", or ("resourceLogs[]", "scopeLogs"), or ("resourceLogs[]", "scopeLogs[]", "logRecords")'
    assert f"write rows_from={paths}, declare" in warning


def test_the_line_that_is_named_for_attributes_reads_them_and_other_pairs_have_none() -> None:
    content = {"id": 1, "labels": RESOURCE["attributes"], "tags": [{"key": "a", "value": "b"}], "none": [{"key": "a"}]}
    proposal = propose([json.dumps(content).encode()])
    (warning,) = [text for text in proposal.warnings if "attributes" in text]
    line = 'Column("labels", "MAP<STRING, STRING>", doc="", required=True, written="otlp")'
    assert warning == f"labels has attributes. To store a map, write {line}."
    table = StreamTable("t", "t", "", [eval(line, {"Column": Column})], [])  # noqa: S307 - the line that a user copies
    assert table.decode(json.dumps(content).encode())["labels"] == [("service.name", "shop")]
