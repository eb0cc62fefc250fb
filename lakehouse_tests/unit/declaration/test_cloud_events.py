"""CloudEvents in new-table: their attributes identify them in the value, and a line reads each that is a header."""

import json
from datetime import UTC, datetime

from lakehouse.declaration import Column, RecordHeader, StreamTable, Time
from lakehouse.declaration.inference.proposal import propose
from lakehouse.declaration.inference.readable_records import header_notes

EVENT = {"specversion": "1.0", "type": "paid", "source": "/shop", "id": "a1", "time": "2026-01-31T10:00:00Z"}
HEADERS = {f"ce_{name}": text.encode() for name, text in EVENT.items()}


def test_events_in_values_are_identified_by_source_and_id() -> None:
    events = [EVENT | {"id": f"a{number}", "data": {"amount": number}} for number in range(3)]
    proposal = propose([json.dumps(event).encode() for event in events])
    assert proposal.key == ("source", "id")
    assert "The records are CloudEvents." in " ".join(proposal.warnings)
    assert [column.name for column in proposal.columns][-1] == "data_amount"
    without_source = [{name: text for name, text in event.items() if name != "source"} for event in events]
    assert propose([json.dumps(event).encode() for event in without_source]).key == ("id",)


def test_the_lines_that_are_named_for_headers_read_them() -> None:
    names = (*EVENT, "subject")
    (note,) = header_notes([HEADERS | {"ce_subject": b"x"}, HEADERS | {"ce_id": b"a2", "ce_time": b"2026-01-31"}])
    assert note.startswith(f"All records have the headers {', '.join(f'ce_{name}' for name in names[:-1])}. To store")
    names_of_line = {"Column": Column, "RecordHeader": RecordHeader, "Time": Time}
    columns = eval(f"[{note.split('write ')[1].removesuffix('.')}]", names_of_line)  # noqa: S307 - lines to copy
    table = StreamTable("t", "t", "", columns, ["ce_source", "ce_id"])
    row = table.decode(b"{}", headers=HEADERS)
    assert (row["ce_source"], row["ce_id"], row["ce_time"]) == ("/shop", "a1", datetime(2026, 1, 31, 10, tzinfo=UTC))


def test_headers_that_some_records_lack_and_bytes_have_no_line() -> None:
    assert [*header_notes([HEADERS, {"trace": b"1"}]), *header_notes([]), *header_notes([{"a": b"\xff"}])] == []
