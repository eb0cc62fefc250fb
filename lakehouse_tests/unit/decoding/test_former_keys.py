"""An update that changes the key of its row, and a record that may truncate the table: both are rejected."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column, Debezium, Deletes, FieldIs, ParentField, Rejection, StreamTable
from lakehouse_tests.helpers.change_records import UNAVAILABLE, change
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

COLUMNS = [Column("id", "BIGINT", "Number.", required=True), Column("note", "STRING", "Note.")]
BY_TYPE = FieldIs(ParentField("type"), ["DELETE"])
CANAL = StreamTable("t", "t", "T.", COLUMNS, ["id"], rows_from="data", deletes=Deletes(when=BY_TYPE))
FOLLOWED = StreamTable("t", "t", "T.", COLUMNS, ["id"], format=Debezium())


def canal(type_: str, data: Any, old: Any = None, **fields: Any) -> bytes:
    """A message of Canal: the rows after the statement, and the former values of the columns that it changed."""
    return json.dumps({"type": type_, "isDdl": False, "data": data, "old": old, **fields}).encode()


def reasons_of(table: StreamTable, value: bytes) -> list[str | None]:
    """The reason of each row of a record, which both paths give."""
    (rows,) = rows_twice([value], table.rules())
    return [row["_reason"] for row in rows]


def test_an_update_of_canal_that_changes_the_key_is_rejected_and_its_other_rows_are_not() -> None:
    rows = [{"id": 2, "note": "a"}, {"id": 3, "note": "b"}]
    assert reasons_of(CANAL, canal("UPDATE", rows, [{"id": 1}, {"note": "x"}])) == ["key_changed", None]
    with pytest.raises(Rejection, match="'id' was '1' and is '2': the row of the former key would stay"):
        raise CANAL.decode_rows(canal("UPDATE", rows, [{"id": 1}, {"note": "x"}]))[0]  # type: ignore[misc]


@pytest.mark.parametrize(
    "old", [None, [], [None], [{"note": "x"}], [{"id": 2, "note": "x"}], [{"id": None}], {"id": 2}, "x", [7]]
)
def test_an_update_whose_former_row_has_the_same_key_is_a_row(old: Any) -> None:
    assert reasons_of(CANAL, canal("UPDATE", [{"id": 2, "note": "a"}], old)) == [None]


@pytest.mark.parametrize("id_before", [1, "2", 1.5])
def test_an_update_of_canal_with_any_other_key_before_is_rejected(id_before: Any) -> None:
    assert reasons_of(CANAL, canal("UPDATE", [{"id": 2, "note": "a"}], [{"id": id_before}])) == ["key_changed"]


def test_the_former_rows_count_for_each_array_on_the_way_to_the_rows() -> None:
    table = replace(CANAL, rows_from=("tables[]", "data"))
    arrays = [{"data": [{"id": 1}]}, {"data": [{"id": 5}, {"id": 6}], "old": [{"id": 5}, {"id": 7}]}]
    value = json.dumps({"type": "UPDATE", "tables": arrays}).encode()
    assert reasons_of(table, value) == [None, None, "key_changed"]


def test_a_delete_is_about_its_own_key_and_not_about_the_one_before() -> None:
    assert reasons_of(CANAL, canal("DELETE", [{"id": 2}], [{"id": 1}])) == [None]


@pytest.mark.parametrize(("value", "reason"), [(canal("TRUNCATE", None), "null_field"), (b"{}", "missing_field")])
def test_a_record_without_an_array_is_rejected_as_soon_as_deletes_are_declared(value: bytes, reason: str) -> None:
    assert reasons_of(CANAL, value) == [reason]
    assert reasons_of(replace(CANAL, deletes=Deletes(when=None)), value) == ["empty"]
    with pytest.raises(Rejection, match="may truncate the table, and its rows would stay"):
        CANAL.decode_rows(value)


def test_an_empty_array_has_no_row_and_a_filtered_record_belongs_to_no_row() -> None:
    assert reasons_of(CANAL, canal("INSERT", [])) == ["empty"]
    filtered = replace(CANAL, where=FieldIs("type", ["INSERT", "UPDATE", "DELETE"]))
    assert reasons_of(filtered, canal("TRUNCATE", None)) == ["filtered"]


@pytest.mark.invariant("15.4")
def test_an_update_of_debezium_that_changes_the_key_is_rejected() -> None:
    row = {"id": 2, "note": "a"}
    with pytest.raises(Rejection, match="'id' was '1' and is '2': the row of the former key would stay") as rejected:
        FOLLOWED.decode(change("u", 7, row, before={"id": 1, "note": "a"}))
    assert rejected.value.reason == "key_changed"


@pytest.mark.parametrize("before", [None, {}, {"id": 2, "note": "x"}, {"id": None, "note": None}])
def test_an_update_of_debezium_with_the_same_key_before_is_a_row(before: Any) -> None:
    row = {"id": 2, "note": "a"}
    assert FOLLOWED.decode(change("u", 7, row, before=before)) == row


@pytest.mark.parametrize("placeholder", ["<gone>", "hex:00ff3c676f6e653e"])
def test_a_placeholder_of_its_own_is_the_value_that_was_not_sent(placeholder: str) -> None:
    note = Column("note", "STRING", "Note.", keep=True, null_erases=True)
    form = Debezium(unavailable_value_placeholder=placeholder)
    table = replace(FOLLOWED, columns=[COLUMNS[0], note], format=form)
    text = "<gone>" if placeholder == "<gone>" else bytes.fromhex("00ff3c676f6e653e").decode(errors="replace")
    assert table.decode(change("u", 7, {"id": 2, "note": text}))["note"] is None
    assert table.decode(change("u", 7, {"id": 2, "note": UNAVAILABLE}))["note"] == UNAVAILABLE
    assert table.fingerprint != replace(table, format=Debezium()).fingerprint
