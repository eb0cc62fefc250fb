"""Unions of several types in Avro: schemas, and values with what the reader makes of them."""

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from lakehouse.decoding.formats.avro.nodes import type_name
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse_tests.helpers.brokers.registries import body as write

EVENT_A = {
    "type": "record",
    "name": "shop.Placed",
    "fields": [{"name": "id", "type": "string"}, {"name": "total", "type": "long"}],
}
EVENT_B = {
    "type": "record",
    "name": "shop.Moved",
    "fields": [{"name": "id", "type": "string"}, {"name": "to", "type": ["null", "string", "long"]}],
}


class Written(NamedTuple):
    """A value as fastavro takes it, as the reader gives it, and as it gives it with named branches."""

    datum: Any
    direct_value: Any
    named_value: Any


class Branch(NamedTuple):
    """A type, its name as a branch, and its values."""

    schema: Any
    name: str
    values: st.SearchStrategy[Written]


def plain_values(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Written]:
    return values.map(lambda value: Written(value, value, value))


INNER = st.one_of(
    st.just(Written(None, None, None)),
    st.text(max_size=3).map(lambda text: Written(("string", text), text, {"string": text})),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: Written(("long", number), number, {"long": number})),
)
MOMENT = {"type": "int", "logicalType": "date"}
BRANCHES = [
    Branch("string", "string", plain_values(st.text(max_size=5))),
    Branch("long", "long", plain_values(st.integers(-(2**63), 2**63 - 1))),
    Branch("boolean", "boolean", plain_values(st.booleans())),
    Branch("double", "double", plain_values(st.floats(allow_nan=False, allow_infinity=False))),
    Branch("bytes", "bytes", plain_values(st.binary(max_size=4))),
    Branch(MOMENT, "int", plain_values(st.dates())),
    Branch(
        {"type": "enum", "name": "shop.Kind", "symbols": ["NEW", "OLD"]},
        "shop.Kind",
        plain_values(st.sampled_from(["NEW"])),
    ),
    Branch({"type": "fixed", "name": "Code", "size": 2}, "Code", plain_values(st.binary(min_size=2, max_size=2))),
    Branch(
        {"type": "array", "items": ["null", "string", "long"]},
        "array",
        st.lists(INNER, max_size=3).map(lambda items: Written(*([item[n] for item in items] for n in range(3)))),
    ),
    Branch(
        {"type": "map", "values": "long"},
        "map",
        plain_values(st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2)),
    ),
    Branch(
        EVENT_A,
        "shop.Placed",
        plain_values(st.fixed_dictionaries({"id": st.text(max_size=3), "total": st.integers(0, 99)})),
    ),
    Branch(
        EVENT_B,
        "shop.Moved",
        st.tuples(st.text(max_size=3), INNER).map(
            lambda pair: Written(*({"id": pair[0], "to": pair[1][n]} for n in range(3)))
        ),
    ),
]


@st.composite
def written_unions(draw: st.DrawFn) -> tuple[dict[str, Any], bytes, Any, Any]:
    """A schema whose field ``v`` is a union; a record in bytes; its ``v`` directly, and with named branches."""
    branches = draw(st.lists(st.sampled_from(BRANCHES), min_size=2, max_size=6, unique_by=lambda branch: branch.name))
    has_null = draw(st.booleans())
    schemas = [*(["null"] if has_null else []), *(branch.schema for branch in branches)]
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": schemas}, {"name": "last", "type": "int"}],
    }
    if has_null and draw(st.booleans()):
        return schema, write(schema, {"id": 1, "v": None, "last": 2}), None, None
    index = draw(st.integers(0, len(branches) - 1))
    value = draw(branches[index].values)
    parsed_branch = json.loads(writer_schema(json.dumps(schema)).text)["fields"][1]["type"][index + has_null]
    datum = (type_name(parsed_branch), value.datum)
    named_value = {branches[index].name: value.named_value}
    return schema, write(schema, {"id": 1, "v": datum, "last": 2}), value.direct_value, named_value
