"""Types that hold all values of another type, and columns that may be widened."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.columns import is_recast, is_widened
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
def test_any_other_type_is_not_wider(narrow: str, wide: str) -> None:
    assert not is_widened(narrow, wide)


@pytest.mark.parametrize(
    ("stored_type", "declared_type", "expected"),
    [
        *(("double", "DECIMAL(9,2)", True), ("bigint", "INT", True), ("decimal(9,2)", "BIGINT", True)),
        *(("string", "INT", True), ("string", "DECIMAL(9,2)", True), ("string", "DATE", True), ("int", "STRING", True)),
        *(("date", "TIMESTAMP", True), ("timestamp", "DATE", True), ("string", "BOOLEAN", True)),
        *(("bigint", "TIMESTAMP", False), ("timestamp", "BIGINT", False), ("int", "DATE", False)),
        *(("timestamp", "STRING", False), ("string", "TIMESTAMP", False), ("double", "STRING", True)),
        *(("boolean", "INT", False), ("array<string>", "STRING", False), ("string", "ARRAY<STRING>", False)),
    ],
)
def test_a_value_is_recast_only_if_it_keeps_its_meaning(stored_type: str, declared_type: str, expected: bool) -> None:
    assert is_recast(stored_type, declared_type) == expected


ID = Column("id", "BIGINT", required=True, widened_from="INT", doc="Number.")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": [replace(ID, widened_from="STRING")]}, "BIGINT does not hold every value of widened_from STRING"),
        ({"columns": [replace(ID, widened_from="BIGINT")]}, "BIGINT does not hold every value of widened_from BIGINT"),
        (
            {"version": "n", "columns": [ID, replace(ID, name="n", type="DECIMAL(9,3)", widened_from="DECIMAL(8,2)")]},
            "n: widened_from .* adds decimal places to the version",
        ),
    ],
)
def test_an_invalid_widened_from_is_refused(changes: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {"columns": [ID], "key": ["id"]}
    assert StreamTable("orders", "orders", "Orders.", **parts)
    with pytest.raises(DeclarationError, match=message):
        StreamTable("orders", "orders", "Orders.", **(parts | changes))


def test_widened_from_does_not_change_the_fingerprint() -> None:
    first = StreamTable("orders", "orders", "Orders.", [ID], ["id"])
    assert replace(first, columns=[replace(ID, widened_from=None)]).fingerprint == first.fingerprint
