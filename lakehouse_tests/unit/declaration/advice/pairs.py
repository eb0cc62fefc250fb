"""Attributes: arrays of names with values that become a map, and values of OpenTelemetry."""

from lakehouse.declaration import KeyValues, Protobuf
from lakehouse_tests.unit.declaration.advice.example import Example, accept
from lakehouse_tests.unit.declaration.ratings import column, with_column, with_columns

MAP = "MAP<STRING, STRING>"
PAIR = {"key": "a", "value": {"intValue": "1"}}
EXAMPLES = [
    Example(
        "column n: written='otlp' does not fit INT",
        "Declare MAP<STRING, STRING> for attributes, STRING for one value, or remove written.",
        with_column(written="otlp"),
        accept(with_column(type_=MAP, written="otlp"), {"n": [PAIR]}, n=[("a", "1")]),
        accept(with_column(type_="STRING", written="otlp"), {"n": {"intValue": "1"}}, n="1"),
        accept(with_column(), {"n": 1}, n=1),
    ),
    Example(
        "column n: written=KeyValues() does not fit MAP<STRING, INT>",
        "Each value becomes a text. Declare MAP<STRING, STRING>, or remove written.",
        with_column(type_="MAP<STRING, INT>", written=KeyValues()),
        accept(with_column(type_=MAP, written=KeyValues()), {"n": [{"key": "a", "value": 1}]}, n=[("a", "1")]),
        accept(with_column(type_="MAP<STRING, INT>"), {"n": {"a": 1}}, n=[("a", 1)]),
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
        accept(with_column(type_="STRING", written="otlp"), {"n": {}}, n=None),
        with_column(type_=MAP, written="otlp", null_values=["-"]),
    ),
    Example(
        "column n: KeyValues(key='') has an empty name, or one that is not valid UTF-8",
        "Write the names that the objects have.",
        with_column(type_=MAP, written=KeyValues(key="")),
        accept(with_column(type_=MAP, written=KeyValues("k", "v")), {"n": [{"k": "a", "v": "b"}]}, n=[("a", "b")]),
    ),
    Example(
        "column n: key and value are both 'key'",
        "Name the field with the name, and the one with the value.",
        with_column(type_=MAP, written=KeyValues(value="key")),
        with_column(type_=MAP, written=KeyValues("id", "key")),
    ),
]
