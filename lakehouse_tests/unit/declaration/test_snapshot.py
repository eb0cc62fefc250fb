"""What a declaration says as facts, and which column of it is one of the former declaration under another name."""

from typing import Any

import pytest

from lakehouse.declaration import Column, RecordKey, StreamTable
from lakehouse.declaration.snapshot import differences, facts_of, renamed

CITY = Column("city", "STRING", "Where.")


def facts(column: Column) -> str:
    number = Column("id", "INT", "Which.", required=True)
    return facts_of(StreamTable("orders", "orders", "Orders.", [number, column], ["id"]))


@pytest.mark.parametrize(
    ("said", "is_renamed"),
    [
        ({"source": "city"}, True),
        ({"source": ("city",)}, True),
        ({"formerly": "city"}, True),
        ({"source": ("to", "town"), "formerly": ("city",)}, True),
        ({}, False),
        ({"source": ("city", "name")}, False),
        ({"formerly": ("to", "city")}, False),
    ],
)
def test_a_column_that_takes_what_another_took_is_that_one_renamed(said: dict[str, Any], is_renamed: bool) -> None:
    now = facts(Column("town", "STRING", "Where.", **said))
    assert [*renamed(facts(CITY), now)] == [("city", "town")] * is_renamed


def test_a_null_that_erases_from_now_on_is_a_difference() -> None:
    before, now = (facts(Column("city", "STRING", "Where.", keep=True, null_erases=erases)) for erases in (False, True))
    assert [*differences(before, now)] == [("column city", "column city: null_erases was not said, is True")]


def test_how_a_key_is_written_is_a_difference_and_one_that_is_plain_text_is_as_before() -> None:
    assert repr(RecordKey()) == "RecordKey()"
    before, now = (facts(Column("city", "INT", "Where.", source=RecordKey(how))) for how in ("text", "big_endian"))
    assert [said for _, said in differences(before, now)] == [
        "column city: takes was RecordKey(), is RecordKey('big_endian')"
    ]
