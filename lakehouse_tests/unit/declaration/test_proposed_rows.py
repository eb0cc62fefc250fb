"""Proposals for records that are arrays, or have some."""

from lakehouse.declaration.inference.proposal import propose


def test_records_that_are_arrays_have_their_elements_as_rows() -> None:
    proposal = propose([b'[{"id": 1, "n": 2}, {"id": 2, "n": 3}]', b"[]", b'[{"id": 3}, 7]', b"x"])
    assert [(column.name, column.required) for column in proposal.columns] == [("id", True), ("n", False)]
    assert (proposal.rows_from, proposal.key, proposal.records, proposal.unread) == ((), ("id",), 4, 1)


def test_an_array_of_objects_is_named_as_possible_rows() -> None:
    proposal = propose([b'{"id": 1, "orderItems": [{"sku": "a"}]}'])
    note = 'order_items is an array of objects. For a row per object, write rows_from="orderItems",'
    assert any(note in warning for warning in proposal.warnings)
