"""Sales: a table whose Avro records have a field of every type."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from lakehouse.declaration import Avro, Column, StreamTable
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.rules import Rules
from lakehouse_tests.helpers.decoding.avro_bodies import schema_of

AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
ALL_TYPES = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "text", "type": ["null", "string"]},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "half", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "yes", "type": "boolean"},
        {"name": "amount", "type": ["null", AMOUNT]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "place", "type": ["null", PLACE]},
        {"name": "other", "type": ["null", "Place"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "notes", "type": {"type": "map", "values": ["null", "long"]}},
    ],
}
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
SALES = st.fixed_dictionaries(
    {
        "id": st.uuids(),
        "text": st.none() | st.text(max_size=20),
        "small": st.integers(-(2**31), 2**31 - 1),
        "large": st.integers(-(2**63), 2**63 - 1),
        "half": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "yes": st.booleans(),
        "amount": st.none() | st.decimals(-(10**9), 10**9, places=2),
        "day": st.dates(),
        "at": MOMENTS,
        "seen": st.none() | MOMENTS.map(lambda moment: moment.replace(microsecond=0)),
        "kind": st.sampled_from(["NEW", "OLD"]),
        "place": st.none() | st.fixed_dictionaries({"city": st.text(max_size=8)}),
        "other": st.none() | st.fixed_dictionaries({"city": st.text(max_size=8)}),
        "tags": st.lists(st.text(max_size=5), max_size=4),
        "notes": st.dictionaries(st.text(max_size=5), st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
    }
)
A_SALE: dict[str, Any] = {
    "id": UUID(int=5),
    "text": "caf\u00e9",
    "small": -7,
    "large": 2**40,
    "half": 0.5,
    "double": 1.25,
    "yes": True,
    "amount": Decimal("12.30"),
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC),
    "seen": None,
    "kind": "OLD",
    "place": {"city": "Oslo"},
    "other": None,
    "tags": ["a", "b"],
    "notes": {"n": 1, "none": None},
}
COLUMNS = (
    Column("id", "STRING", "A UUID.", required=True),
    Column("text", "STRING", "A text."),
    Column("small", "INT", "A number."),
    Column("large", "BIGINT", "A number."),
    Column("half", "DOUBLE", "A number of 32 bits."),
    Column("double", "DOUBLE", "A number.", between=(-1e300, 1e300)),
    Column("yes", "BOOLEAN", "Whether."),
    Column("amount", "DECIMAL(12,2)", "An amount."),
    Column("day", "DATE", "A day."),
    Column("at", "TIMESTAMP", "A moment."),
    Column("seen", "TIMESTAMP", "A moment."),
    Column("kind", "STRING", "An enum."),
    Column("city", "STRING", "Within another.", source=("place", "city")),
    Column("n", "BIGINT", "Of a map.", source=("notes", "n")),
)
TABLE = StreamTable("sales", "sales", "Sales.", COLUMNS, key=["id"], format=Avro())
SCHEMAS = Schemas({7: schema_of(ALL_TYPES)}, {})
RULES = Rules(TABLE.fields, None, TABLE.format.parser(SCHEMAS))
