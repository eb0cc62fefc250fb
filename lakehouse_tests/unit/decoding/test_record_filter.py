"""Records that do not meet ``where`` are filtered: neither decoded nor rejected."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, FieldIs, HeaderIs, Rejection
from lakehouse.decoding.fast.plain_records import decode_plain
from lakehouse.decoding.record_parts import HEADER
from lakehouse.decoding.staged import FILTERED
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.decoding.both_paths import decode_twice
from lakehouse_tests.unit.declaration.ratings import declare

ORDERS = declare(Column("note", "STRING", "A note.", source=("payload", "note")), where=FieldIs("type", ["order", 7]))
BY_HEADER = declare(where=HeaderIs("event-type", ["order", "préorder"]))
ROW = {"id": 1, "time": "2026-03-30 05:00:00", "stars": 3}


def verdicts(*contents: Any, table: Any = ORDERS, headers: list[bytes | None] | None = None) -> list[dict[str, Any]]:
    """The verdicts of both paths, which must be equal."""
    values = [content if isinstance(content, bytes) else json.dumps(content).encode() for content in contents]
    parts = {} if headers is None else {f"{HEADER}event-type": headers}
    return list(decode_twice(values, table.rules(), parts).verdicts.to_pylist())


def reasons(*contents: Any, **options: Any) -> list[str | None]:
    return [verdict["_reason"] for verdict in verdicts(*contents, **options)]


def test_only_records_with_one_of_the_values_belong_to_the_table() -> None:
    contents = [{**ROW, "type": kind} for kind in ("order", 7, "refund", "7", True, None, 7.5)] + [ROW]
    assert reasons(*contents) == [None, None, *[FILTERED] * 6]


def test_a_filtered_record_has_no_values_and_needs_none() -> None:
    first, second = verdicts({"type": "refund", "id": "x", "stars": 99, "extra": 1}, {"type": "refund", **ROW})
    assert {value for name, value in (*first.items(), *second.items()) if name not in ("_reason", "_late")} == {None}


def test_fields_of_filtered_records_are_not_unmapped() -> None:
    values = pa.array([json.dumps({**ROW, "type": "refund", "other": 1}).encode()])
    assert not decode_values(values, None, ORDERS.rules(), decode_plain).unmapped_counts


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


def test_decode_says_that_a_record_belongs_to_another_table() -> None:
    assert ORDERS.decode(json.dumps({**ROW, "type": "order"}).encode())["stars"] == 3
    with pytest.raises(Rejection, match="does not meet where") as error_info:
        ORDERS.decode(b'{"type": "refund"}')
    assert error_info.value.reason == FILTERED


def test_an_unset_condition_changes_no_fingerprint() -> None:
    assert declare().fingerprint == declare(where=None).fingerprint != BY_HEADER.fingerprint


_kinds: st.SearchStrategy[Any] = st.sampled_from(["order", "refund", 7, 7.0, 8, None, True, [], {"a": 1}])
_fields = {"id": st.integers(0, 3) | st.text(max_size=1), "stars": st.integers(0, 9), "payload": st.text(max_size=2)}


@given(
    st.lists(st.fixed_dictionaries({}, optional={"type": _kinds, "time": st.just(ROW["time"]), **_fields}), min_size=1)
)
def test_both_paths_give_the_same_verdicts(contents: list[dict[str, Any]]) -> None:
    verdicts(*contents)
