"""Records that do not meet ``where`` are filtered: neither decoded nor rejected."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, FieldIs, HeaderIs, Rejection
from lakehouse.declaration.snapshot import facts_of
from lakehouse.decoding.record_parts import HEADER
from lakehouse.decoding.staged import FILTERED
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, rows_twice
from lakehouse_tests.unit.declaration.ratings import declare

ORDERS = declare(Column("note", "STRING", "A note.", source=("payload", "note")), where=FieldIs("type", ["order", 7]))
BY_HEADER = declare(where=HeaderIs("event-type", ["order", "préorder"]))
BY_ALL = declare(where=[FieldIs("type", ["order"]), HeaderIs("event-type", ["order"]), FieldIs("db", ["a", "b"])])
ROW = {"id": 1, "time": "2026-03-30 05:00:00", "stars": 3}


def verdicts(*contents: Any, table: Any = ORDERS, headers: list[bytes | None] | None = None) -> list[dict[str, Any]]:
    """The verdicts of both paths, which must be equal."""
    values = [content if isinstance(content, bytes) else json.dumps(content).encode() for content in contents]
    parts = {} if headers is None else {f"{HEADER}event-type": headers}
    return list(rows_twice(values, table.rules(), parts))


def reasons(*contents: Any, **options: Any) -> list[str | None]:
    return [verdict["_reason"] for verdict in verdicts(*contents, **options)]


def test_only_records_with_one_of_the_values_belong_to_the_table() -> None:
    contents = [{**ROW, "type": kind} for kind in ("order", 7, "refund", "7", True, None, 7.5)] + [ROW]
    assert reasons(*contents) == [None, None, *[FILTERED] * 6]


def test_a_filtered_record_has_no_values_and_needs_none() -> None:
    first, second = verdicts({"type": "refund", "id": "x", "stars": 99, "extra": 1}, {"type": "refund", **ROW})
    assert {value for name, value in (*first.items(), *second.items()) if name not in ("_reason", "_late")} == {None}


def test_fields_of_filtered_records_are_not_unmapped() -> None:
    assert not decode_twice(
        [json.dumps({**ROW, "type": "refund", "other": 1}).encode()], ORDERS.rules()
    ).unmapped_counts


@pytest.mark.invariant("7.10")
def test_a_record_whose_type_cannot_be_read_is_rejected() -> None:
    broken = [b'{"type": "ref', b'{"type": "refund", "type": "order"}', b"[]", {"type": {"name": "order"}}]
    assert reasons(*broken) == ["truncated", "duplicate_name", "not_an_object", "wrong_type"]


def test_a_text_of_another_type_that_holds_no_json_rejects_nothing() -> None:
    assert reasons({"type": "refund", "payload": "{broken"}, {**ROW, "type": "order", "payload": "{broken"}) == [
        FILTERED,
        "invalid_json",
    ]


def test_a_header_decides_before_the_value_is_read() -> None:
    headers = [b"order", "préorder".encode(), b"refund", None, b"\xff", b"order"]
    contents = [ROW, ROW, b"not JSON", ROW, ROW, b"not JSON"]
    assert reasons(*contents, table=BY_HEADER, headers=headers) == [None, None, *[FILTERED] * 3, "invalid_json"]


def test_every_condition_of_a_list_must_hold() -> None:
    order = {**ROW, "type": "order", "db": "b"}
    contents = [order, {**order, "db": "c"}, {**order, "type": "refund"}, {**ROW, "type": "order"}, order, b"not JSON"]
    headers = [*[b"order"] * 4, b"refund", None]
    assert reasons(*contents, table=BY_ALL, headers=headers) == [None, *[FILTERED] * 5]


def test_a_condition_is_not_read_after_one_that_does_not_hold() -> None:
    contents = [{**ROW, "type": "refund", "db": {"a": 1}}, {**ROW, "type": "order", "db": {"a": 1}}]
    assert reasons(*contents, table=BY_ALL, headers=[b"order"] * 2) == [FILTERED, "wrong_type"]
    contents = [{**ROW, "type": {"a": 1}, "db": "c"}]
    assert reasons(*contents, table=BY_ALL, headers=[b"order"]) == ["wrong_type"]


def test_decode_says_that_a_record_belongs_to_another_table() -> None:
    assert ORDERS.decode(json.dumps({**ROW, "type": "order"}).encode())["stars"] == 3
    with pytest.raises(Rejection, match="does not meet where") as error_info:
        ORDERS.decode(b'{"type": "refund"}')
    assert error_info.value.reason == FILTERED


def test_an_unset_condition_changes_no_fingerprint() -> None:
    assert declare().fingerprint == declare(where=None).fingerprint != BY_HEADER.fingerprint


def test_a_list_of_one_condition_is_that_condition() -> None:
    alone = declare(where=[HeaderIs("event-type", ["order", "préorder"])])
    assert (alone.fingerprint, facts_of(alone)) == (BY_HEADER.fingerprint, facts_of(BY_HEADER))
    assert len({declare(where=[HeaderIs("a", ["b"]), *more]).fingerprint for more in ([], [HeaderIs("c", ["d"])])}) == 2


_kinds: st.SearchStrategy[Any] = st.sampled_from(["order", "refund", 7, 7.0, 8, None, True, [], {"a": 1}])
_fields = {"id": st.integers(0, 3) | st.text(max_size=1), "stars": st.integers(0, 9), "payload": st.text(max_size=2)}
_fields |= {"db": st.sampled_from(["a", "c", None, {"a": 1}])}


@given(
    st.lists(st.fixed_dictionaries({}, optional={"type": _kinds, "time": st.just(ROW["time"]), **_fields}), min_size=1)
)
def test_both_paths_give_the_same_verdicts(contents: list[dict[str, Any]]) -> None:
    verdicts(*contents)
    headers = [[b"order", b"refund", None][index % 3] for index in range(len(contents))]
    verdicts(*contents, table=BY_ALL, headers=headers)
