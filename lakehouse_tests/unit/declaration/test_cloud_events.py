"""CloudEvents in new-table: their attributes identify them, in the value or in headers."""

import json

from lakehouse.cli.proposed_file import declaration_text
from lakehouse.declaration import RecordHeader, StreamTable
from lakehouse.declaration.inference.cloud_events import with_event_headers
from lakehouse.declaration.inference.proposal import propose

EVENT = {"specversion": "1.0", "type": "paid", "source": "/shop", "id": "a1", "time": "2026-01-31T10:00:00Z"}
HEADERS = {f"ce_{name}": text.encode() for name, text in EVENT.items()}
VALUES = [json.dumps({"order_id": number, "amount": 5}).encode() for number in (1, 2)]


def test_events_in_values_are_identified_by_source_and_id() -> None:
    events = [EVENT | {"id": f"a{number}", "data": {"amount": number}} for number in range(3)]
    proposal = propose([json.dumps(event).encode() for event in events])
    assert proposal.key == ("source", "id")
    assert "The records are CloudEvents." in " ".join(proposal.warnings)
    assert [column.name for column in proposal.columns][-1] == "data_amount"
    without_source = [{name: text for name, text in event.items() if name != "source"} for event in events]
    assert propose([json.dumps(event).encode() for event in without_source]).key == ("id",)


def test_events_in_headers_get_a_column_for_each_attribute() -> None:
    proposal = with_event_headers(propose(VALUES), [HEADERS, HEADERS | {"ce_id": b"a2", "ce_subject": b"x"}])
    columns = {column.name: (column.type, column.required) for column in proposal.columns}
    assert columns == {
        "ce_source": ("STRING", True),
        "ce_id": ("STRING", True),
        "ce_specversion": ("STRING", True),
        "ce_type": ("STRING", True),
        "ce_time": ("TIMESTAMP", False),
        "ce_subject": ("STRING", False),
        "order_id": ("BIGINT", True),
        "amount": ("BIGINT", True),
    }
    assert proposal.key == ("order_id",)
    table = StreamTable("t", "t", "", proposal.columns, proposal.key)
    assert table.decode(VALUES[0], headers=HEADERS)["ce_source"] == "/shop"
    text = declaration_text("t", ["t"], proposal)
    assert 'source=RecordHeader("ce_time"), pattern="iso8601"' in text
    assert "import Column, RecordHeader, StreamTable" in text


def test_events_of_several_types_are_identified_by_their_own_id() -> None:
    proposal = with_event_headers(propose(VALUES), [HEADERS, HEADERS | {"ce_id": b"a2", "ce_type": b"refunded"}])
    assert proposal.key == ("ce_source", "ce_id")
    assert "--where header:ce_type=paid" in " ".join(proposal.warnings)


def test_other_headers_change_nothing() -> None:
    proposal = propose(VALUES)
    assert with_event_headers(proposal, [HEADERS, {"trace": b"1"}]) == proposal
    assert with_event_headers(proposal, []) == proposal
    assert not any(isinstance(column.source, RecordHeader) for column in proposal.columns)


def test_a_field_with_the_name_of_a_header_keeps_its_column() -> None:
    values = [json.dumps({"ce_id": "x", "amount": 5}).encode(), b'{"amount": 6}']
    proposal = with_event_headers(propose(values), [HEADERS, HEADERS | {"ce_id": b"a2"}])
    table = StreamTable("t", "t", "", proposal.columns, proposal.key)
    assert (table.key, [column.name for column in table.columns].count("ce_id")) == ((), 1)
    without_key = with_event_headers(propose([b'{"amount": 6}']), [HEADERS, HEADERS])
    assert without_key.key == ("ce_source", "ce_id")
    assert not any("log table" in warning for warning in without_key.warnings)
