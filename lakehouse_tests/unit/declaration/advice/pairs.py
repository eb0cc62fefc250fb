"""Attributes: arrays of names with values that become a map, and values of OpenTelemetry."""

from lakehouse.declaration import KeyValues, Protobuf
from lakehouse_tests.unit.declaration.advice.example import Example, of_column, reads
from lakehouse_tests.unit.declaration.ratings import column, with_column, with_columns

MAP = "MAP<STRING, STRING>"
PAIR = {"key": "a", "value": {"intValue": "1"}}
EXAMPLES = [
    Example(
        "column n: written='otlp' does not fit INT",
        "Declare MAP<STRING, STRING> for attributes, STRING for one value, or remove written.",
        with_column(written="otlp"),
        reads([PAIR], [("a", "1")], type_=MAP, written="otlp"),
        reads({"intValue": "1"}, "1", type_="STRING", written="otlp"),
        reads(1, 1),
    ),
    Example(
        "column n: written=KeyValues() does not fit MAP<STRING, INT>",
        "Each value becomes a text. Declare MAP<STRING, STRING>, or remove written.",
        with_column(type_="MAP<STRING, INT>", written=KeyValues()),
        reads([{"key": "a", "value": 1}], [("a", "1")], type_=MAP, written=KeyValues()),
        reads({"a": 1}, [("a", 1)], type_="MAP<STRING, INT>"),
    ),
    Example(
        "column attributes: written='otlp' is not allowed for format Protobuf",
        "Declare a column for each field that you need, with its path as source.",
        with_columns(column("attributes", MAP, written="otlp"), format=Protobuf()),
        with_columns(column("name", "STRING", source=("resource", "name")), format=Protobuf()),
    ),
    Example(
        "column n: null_values is not allowed for a STRING with written='otlp'",
        "The value is in an object, and an empty one is null. Remove null_values.",
        with_column(type_="STRING", written="otlp", null_values=["-"]),
        reads({}, None, type_="STRING", written="otlp"),
        with_column(type_=MAP, written="otlp", null_values=["-"]),
    ),
    Example(
        "column n: KeyValues(key='') has an empty name, or one that is not valid UTF-8",
        "Write the names that the objects have.",
        with_column(type_=MAP, written=KeyValues(key="")),
        reads([{"k": "a", "v": "b"}], [("a", "b")], type_=MAP, written=KeyValues("k", "v")),
    ),
    of_column(
        "key and value are both 'key'",
        "Name the field with the name, and the one with the value.",
        type_=MAP,
        written=[KeyValues(value="key"), KeyValues("id", "key")],
    ),
]
