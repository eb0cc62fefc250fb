"""A column with the name of the topic: the same value on both paths, in tables of one and of several topics."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, StreamTable, TopicName, Topics
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

ID = Column("id", "BIGINT", required=True, doc="Number.")
SHOP = Column("shop", "STRING", source=TopicName(), required=True, doc="Topic.")
TWO = ["orders-eu", "orders-us"]
VALUES = [b'{"id": 1}', b'{"id": "x"}', b"{", b'{"id": 2, "topic": 7}', b"[]", None]
ONE = StreamTable("orders", "orders-eu", "Orders.", [ID, SHOP], ["shop", "id"])
SEVERAL = StreamTable("orders", source=Topics(TWO), doc="Orders.", columns=[ID, SHOP], key=["shop", "id"])


def test_the_name_of_the_topic_is_a_value_of_the_row() -> None:
    assert ONE.decode(b'{"id": 1}') == {"id": 1, "shop": "orders-eu"}
    assert SEVERAL.in_topic("orders-us").decode(b'{"id": 1}') == {"id": 1, "shop": "orders-us"}
    with pytest.raises(ValueError, match=r"in_topic\(NAME\)"):
        SEVERAL.decode(b'{"id": 1}')


def test_a_field_of_the_record_with_that_name_is_not_read() -> None:
    assert ONE.decode(b'{"id": 1, "topic": "other", "shop": "other"}')["shop"] == "orders-eu"


@given(st.lists(st.sampled_from(VALUES), max_size=6))
@pytest.mark.parametrize("rows_from", [None, "items"])
def test_both_paths_give_the_same_rows(rows_from: str | None, values: list[bytes | None]) -> None:
    table = replace(SEVERAL, rows_from=rows_from).in_topic("orders-us")
    if rows_from:
        values = [value and b'{"items": [' + value + b', {"id": 3}]}' for value in values]
    verdicts = rows_twice(values, table.rules())
    rows = [row for verdict in verdicts for row in (verdict if rows_from else [verdict]) if row["_reason"] is None]
    assert {row["shop"] for row in rows} <= {"orders-us"}
    assert len(rows) >= values.count(b'{"id": 1}')
