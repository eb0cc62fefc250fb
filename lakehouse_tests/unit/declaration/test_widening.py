"""Which types hold the values of which, and what may be said to be widened."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.widening import is_recast, is_widened
from lakehouse.errors import DeclarationError


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        *(("INT", "BIGINT"), ("INT", "DOUBLE"), ("INT", "DECIMAL(10,0)"), ("INT", "DECIMAL(12,2)")),
        *(("BIGINT", "DECIMAL(19,0)"), ("BIGINT", "DECIMAL(38,19)"), ("int", "bigint")),
        *(("DECIMAL(4,2)", "DECIMAL(5,2)"), ("DECIMAL(4,2)", "DECIMAL(12,10)"), ("decimal(4,2)", "DECIMAL(6, 4)")),
    ],
)
def test_a_type_that_holds_every_value_of_another_is_wider(narrow: str, wide: str) -> None:
    assert is_widened(narrow, wide)
    assert not is_widened(wide, narrow)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        *(("INT", "INT"), ("BIGINT", "DOUBLE"), ("INT", "STRING"), ("INT", "DECIMAL(9,0)"), ("INT", "DECIMAL(12,3)")),
        *(("DECIMAL(4,2)", "DECIMAL(4,2)"), ("DECIMAL(4,2)", "DECIMAL(5,4)"), ("DECIMAL(4,2)", "DOUBLE")),
        *(("DATE", "TIMESTAMP"), ("DECIMAL(4,0)", "BIGINT"), ("STRING", "STRING"), ("BOOLEAN", "INT")),
    ],
)
def test_any_other_type_is_not(narrow: str, wide: str) -> None:
    assert not is_widened(narrow, wide)


@pytest.mark.parametrize(
    ("stands", "declared", "may"),
    [
        *(("double", "DECIMAL(9,2)", True), ("bigint", "INT", True), ("decimal(9,2)", "BIGINT", True)),
        *(("string", "INT", True), ("string", "DECIMAL(9,2)", True), ("string", "DATE", True), ("int", "STRING", True)),
        *(("date", "TIMESTAMP", True), ("timestamp", "DATE", True), ("string", "BOOLEAN", True)),
        *(("bigint", "TIMESTAMP", False), ("timestamp", "BIGINT", False), ("int", "DATE", False)),
        *(("timestamp", "STRING", False), ("string", "TIMESTAMP", False), ("double", "STRING", True)),
        *(("boolean", "INT", False), ("array<string>", "STRING", False), ("string", "ARRAY<STRING>", False)),
    ],
)
def test_a_value_is_recast_only_where_the_other_type_means_the_same(stands: str, declared: str, may: bool) -> None:
    assert is_recast(stands, declared) == may


ID = Column("id", "BIGINT", required=True, widened_from="INT", doc="Number.")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"columns": [replace(ID, widened_from="STRING")]}, "widened_from STRING to BIGINT: not every value"),
        ({"columns": [replace(ID, widened_from="BIGINT")]}, "widened_from BIGINT to BIGINT: not every value"),
        (
            {"version": "n", "columns": [ID, replace(ID, name="n", type="DECIMAL(9,3)", widened_from="DECIMAL(8,2)")]},
            "n: widened_from .* to more places, and of a version",
        ),
    ],
)
def test_what_cannot_be_widened_is_refused(changes: dict[str, Any], why: str) -> None:
    said: dict[str, Any] = {"columns": [ID], "key": ["id"]}
    assert StreamTable("orders", "orders", "Orders.", **said)
    with pytest.raises(DeclarationError, match=why):
        StreamTable("orders", "orders", "Orders.", **(said | changes))


def test_what_a_type_was_is_no_part_of_the_declaration_s_hash() -> None:
    first = StreamTable("orders", "orders", "Orders.", [ID], ["id"])
    assert replace(first, columns=[replace(ID, widened_from=None)]).fingerprint == first.fingerprint
