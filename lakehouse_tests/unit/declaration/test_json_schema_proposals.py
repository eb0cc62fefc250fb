"""Proposals for JSON with a registry: the schema lists the fields, and says which may be missing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Json
from lakehouse.declaration.inference.proposal import Proposal, propose
from lakehouse.decoding.formats.format import RegisteredSchema, Schemas, UnusableSchemaError
from lakehouse.decoding.formats.framing import add_frame

FORM = Json(framed=True)
SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id", "at", "price", "buyer"],
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "price": {"type": "number"},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "count": {"type": ["integer", "null"]},
        "buyer": {"$ref": "#/definitions/Buyer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "loop": {"$ref": "#/properties/loop"},
    },
    "definitions": {"Buyer": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}
RECORD = {"id": 7, "at": "2026-01-31T10:00:00Z", "price": 5, "buyer": {"city": "Oslo"}, "tags": ["a"], "count": None}


def propose_by(schema: Any, *records: dict[str, Any]) -> Proposal:
    """The proposal for records with a schema of a registry."""
    registered = FORM.writer_schema(RegisteredSchema(json.dumps(schema), (), "JSON"))
    values = [add_frame(7, json.dumps(record).encode()) for record in records]
    return propose(values, FORM, Schemas({7: registered}, {}))


def test_fields_numbers_and_nulls_come_from_the_schema_and_other_types_from_the_values() -> None:
    proposal = propose_by(SCHEMA, RECORD, RECORD | {"id": 8})
    assert {column.name: (column.type, column.required) for column in proposal.columns} == {
        "id": ("BIGINT", True),
        "at": ("TIMESTAMP", True),
        "price": ("DOUBLE", True),
        "note": ("STRING", False),
        "count": ("BIGINT", False),
        "buyer_city": ("STRING", True),
        "tags": ("ARRAY<STRING>", False),
        "loop": ("STRING", False),
    }
    assert (proposal.key, proposal.form) == (("id",), FORM)


def test_without_a_schema_the_records_alone_count() -> None:
    values = [add_frame(7, json.dumps(RECORD).encode())]
    assert [column.name for column in propose(values, FORM).columns] == ["id", "at", "price", "buyer_city", "tags"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=3) | st.sampled_from(["object", "integer", "#", "#/a"]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["type", "properties", "$ref", "oneOf", "required", "a"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_any_schema_gives_a_proposal(schema: Any) -> None:
    if isinstance(schema, dict):
        propose_by(schema, RECORD)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_a_text_that_is_no_object_is_no_schema(text: str) -> None:
    with pytest.raises(UnusableSchemaError):
        FORM.writer_schema(RegisteredSchema(text, (), "JSON"))
    with pytest.raises(UnusableSchemaError, match="it is a schema of AVRO, not of Json"):
        FORM.writer_schema(RegisteredSchema("{}", (), "AVRO"))
