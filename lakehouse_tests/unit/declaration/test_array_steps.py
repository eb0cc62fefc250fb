"""A path that leads into an array, such as ``items[0].price``, is refused in every option that names a field."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import (
    Column,
    Csv,
    Deletes,
    FieldIs,
    Json,
    ParentField,
    RecordKey,
    Reference,
    StreamTable,
    ValueOrObject,
)
from lakehouse.declaration.inference.proposal import propose
from lakehouse.errors import DeclarationError
from lakehouse_tests.unit.declaration.ratings import ID, column, declare

REFERENCE = Reference("movies", Path("movies.jsonl"), [ID, column(source="m[0]")], ["id"], "The movies.")


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({"source": "items[0].price"}, "items[0]"),
        ({"source": "items[].price"}, "items[]"),
        ({"source": ("order", "items[12]")}, "items[12]"),
        ({"source": "items[*]"}, "items[*]"),
        ({"source": ("items", "[0]", "price")}, "[0]"),
        ({"source": "price", "formerly": ("items[0]", "price")}, "items[0]"),
        ({"source": ValueOrObject("items[0]", "price")}, "items[0]"),
        ({"source": RecordKey("json", "ids[0]")}, "ids[0]"),
    ],
)
def test_a_column_whose_path_leads_into_an_array_is_refused(options: dict[str, Any], step: str) -> None:
    with pytest.raises(DeclarationError, match="leads into an array") as raised:
        declare(Column("price", "INT", "The price.", **options))
    assert repr(step) in raised.value.what


@pytest.mark.parametrize(
    "options",
    [
        {"where": FieldIs("items[0].kind", ["a"])},
        {"where": [FieldIs("kind", ["a"]), FieldIs(("items[]", "kind"), ["a"])]},
        {"deletes": Deletes(when=FieldIs("items[0]", ["gone"]))},
        {"rows_from": ("orders[0]", "items")},
        {"rows_from": "items[0]"},
        {"format": Json(in_base64=["Records[0]", "data"])},
        {"references": [REFERENCE]},
    ],
)
def test_every_option_that_names_a_field_refuses_a_path_into_an_array(options: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match="leads into an array"):
        declare(**options)


def test_the_arrays_on_the_way_to_the_rows_are_named_with_brackets() -> None:
    declare(column(source=ParentField(("orders[]", "number"))), rows_from=("orders[]", "items"))
    with pytest.raises(DeclarationError, match="leads into an array"):
        declare(column(source=ParentField(("orders[]", "parts[0]"))), rows_from=("orders[]", "items"))


def test_a_column_of_a_csv_file_may_have_a_name_with_brackets() -> None:
    names = ["id", "time", "stars", "tags[]"]
    table = declare(column("n", "STRING", source="tags[]"), format=Csv(names))
    assert table.decode(b"1,2026-01-31 12:00:00,5,x")["n"] == "x"


def test_new_table_leaves_out_a_field_whose_name_looks_like_a_place_in_an_array() -> None:
    records = [json.dumps({"id": number, "tags[]": f"t{number}", "a": {"b[0]": 1}}).encode() for number in range(3)]
    proposal = propose(records)
    left_out = [warning for warning in proposal.warnings if "looks like a place in an array" in warning]
    assert [left.split(" is ")[0] for left in left_out] == ["Field 'tags[]'", "Field 'a.b[0]'"]
    StreamTable("t", "t", "T.", proposal.columns, proposal.key)
