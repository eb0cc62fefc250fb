"""Proposals for records that are arrays, or have some."""

from lakehouse.declaration.inference.cloud_events import with_event_headers
from lakehouse.declaration.inference.proposal import propose


def test_records_that_are_arrays_have_their_elements_as_rows() -> None:
    proposal = propose([b'[{"id": 1, "n": 2}, {"id": 2, "n": 3}]', b"[]", b'[{"id": 3}, 7]', b"x"])
    assert [(column.name, column.required) for column in proposal.columns] == [("id", True), ("n", False)]
    assert (proposal.rows_from, proposal.key, proposal.records, proposal.unread) == ((), ("id",), 4, 1)


def test_an_array_of_objects_is_named_as_possible_rows() -> None:
    proposal = propose([b'{"id": 1, "orderItems": [{"sku": "a"}]}'])
    note = 'order_items is an array of objects. For a row per object, write rows_from="orderItems",'
    assert any(note in warning for warning in proposal.warnings)


def test_the_attributes_of_an_event_are_no_key_of_the_rows_in_it() -> None:
    headers = {"ce_specversion": b"1.0", "ce_id": b"7", "ce_source": b"/shop", "ce_type": b"order"}
    proposal = propose([b'[{"id": 1}, {"id": 2}]'])
    with_headers = with_event_headers(proposal, [headers])
    assert proposal.rows_from == with_headers.rows_from == ()
    assert with_headers.key == proposal.key == ("id",)
    assert {"ce_id", "ce_source"} < {column.name for column in with_headers.columns}
    without_key = with_event_headers(propose([b'[{"n": 1}, {"n": 1}]']), [headers])
    assert without_key.key == ()
    assert with_event_headers(propose([b'{"n": 1}']), [headers]).key == ("ce_source", "ce_id")
