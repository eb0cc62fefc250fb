"""Types of columns, and types of the parts of a declaration."""

import json
from datetime import timedelta
from decimal import Decimal

from lakehouse.declaration import Day, Measure, Month, SampleRecords, Topic, Upkeep, Value, Year
from lakehouse_tests.unit.declaration.advice.example import Example, accept
from lakehouse_tests.unit.declaration.ratings import column, with_column, with_columns, with_rollup

FIELDS = ", ".join(f"f{number}: INT" for number in range(200))
DEEP = "STRUCT<a: " * 9 + "INT" + ">" * 9
DEEP_OBJECT = json.loads('{"a": ' * 9 + "5" + "}" * 9)
EXAMPLES = [
    Example(
        "column n: unknown type FLOAT",
        (
            "Declare STRING, BINARY, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale), or for"
            " nested values ARRAY<type>, MAP<STRING, type> or STRUCT<name: type, ...>."
        ),
        with_column(type_="FLOAT"),
        with_column(type_="STRING"),
        with_column(type_="DOUBLE"),
        with_column(type_="DECIMAL(9,2)"),
        with_column(type_="ARRAY<DOUBLE>"),
        with_column(type_="MAP<STRING, DOUBLE>"),
        with_column(type_="STRUCT<x: DOUBLE, y: DOUBLE>"),
    ),
    Example(
        "column n: DECIMAL(99,2) has 99 digits",
        "A decimal has at most 38 digits: declare fewer.",
        with_column(type_="DECIMAL(99,2)"),
        with_column(type_="DECIMAL(38,2)"),
    ),
    Example(
        "column n: DECIMAL(2,5) has more decimal places than digits",
        "The first number is the count of all digits, the second the count of decimal places.",
        with_column(type_="DECIMAL(2,5)"),
        with_column(type_="DECIMAL(7,5)"),
    ),
    Example(
        "column n: its type has more than 200 fields",
        "Declare only the fields that you need.",
        with_column(type_=f"STRUCT<{FIELDS}, last: INT>"),
        with_column(type_=f"STRUCT<{FIELDS}>"),
    ),
    Example(
        "column n: its type has more than 8 levels",
        "Remove the deeper levels. Fields outside of arrays and maps can be columns, with their paths as source.",
        with_column(type_=DEEP),
        with_column(type_="STRUCT<a: " * 8 + "INT" + ">" * 8),
        accept(with_column(source=("n", *"a" * 9)), {"n": DEEP_OBJECT}, n=5),
    ),
    Example(
        "column n: its type has more than 8 levels",
        "Remove the deeper levels. Fields outside of arrays and maps can be columns, with their paths as source.",
        with_column(type_=f"ARRAY<{DEEP}>"),
        with_column(type_="ARRAY<" + "STRUCT<a: " * 7 + "INT" + ">" * 8),
    ),
    Example(
        "column n: ARRAY<INT, INT> is not a valid array type",
        "The items have one type: declare ARRAY<type>.",
        with_column(type_="ARRAY<INT, INT>"),
        with_column(type_="ARRAY<INT>"),
    ),
    Example(
        "column n: MAP<INT, INT> is not a valid map type",
        "The keys are field names, which are strings: declare MAP<STRING, type>.",
        with_column(type_="MAP<INT, INT>"),
        accept(with_column(type_="MAP<STRING, INT>"), {"n": {"1": 2}}, n=[("1", 2)]),
    ),
    Example(
        "column n: STRUCT<a-b: INT, c: INT> has the invalid field name 'a-b'",
        (
            "Declare STRUCT<name: type> with names of letters, digits and _. A field with another name can be a column,"
            " with its path as source, unless it is inside an array or a map."
        ),
        with_column(type_="STRUCT<a-b: INT, c: INT>"),
        with_column(type_="STRUCT<a_b: INT, c: INT>"),
        accept(
            with_columns(column("n", "STRUCT<c: INT>"), column("m", source=("n", "a-b"))),
            {"n": {"a-b": 1, "c": 2}},
            n={"c": 2},
            m=1,
        ),
    ),
    Example(
        "column n: STRUCT<a: INT, A: INT> has two fields a",
        "Spark ignores case in field names: remove one of the fields.",
        with_column(type_="STRUCT<a: INT, A: INT>"),
        with_column(type_="STRUCT<a: INT>"),
    ),
    Example(
        "topic must be a string, not None",
        "Declare a string.",
        with_columns(topic=None),
        with_columns(topic="ratings"),
    ),
    Example(
        "upkeep: retention must be a timedelta, not 7",
        "Declare a timedelta.",
        with_columns(upkeep=Upkeep(retention=7)),  # type: ignore[arg-type]
        with_columns(upkeep=Upkeep(retention=timedelta(days=7))),
    ),
    Example(
        "source: order must be timestamp or offset, not 'offsets'",
        "Declare timestamp or offset.",
        with_columns(source=Topic("ratings", order="offsets")),  # type: ignore[arg-type]
        with_columns(source=Topic("ratings", order="timestamp")),
        with_columns(source=Topic("ratings", order="offset")),
    ),
    Example("key is missing", "Add key=... to it.", with_columns(key=None), with_columns(key=["id"])),
    Example(
        "key: each item must be a string, not 5",
        "Declare a string.",
        with_columns(key=["id", 5]),
        with_columns(key=["id"]),
    ),
    Example(
        "key must be a list or tuple, not 'id'",
        "Declare a list or tuple.",
        with_columns(key="id"),
        with_columns(key=["id"]),
        with_columns(key=("id",)),
    ),
    Example(
        "partition_by must be a Day, a Month, a Year or a Value, not 'rated_at'",
        "Declare a Day, a Month, a Year or a Value.",
        with_columns(partition_by="rated_at"),
        with_columns(partition_by=Day("rated_at")),
        with_columns(partition_by=Month("rated_at")),
        with_columns(partition_by=Year("rated_at")),
        with_columns(partition_by=Value("stars")),
    ),
    Example(
        "column n: default must be a string, True or False or a number, not []",
        "Declare a string, True or False or a number.",
        with_column(default=[]),
        accept(with_column(type_="STRING", default="a"), {}, n="a"),
        accept(with_column(type_="BOOLEAN", default=True), {}, n=True),
        accept(with_column(default=3), {}, n=3),
    ),
    Example(
        "rollup by_movie: measure n must be a Measure, not 'count(*)'",
        "Declare a Measure.",
        with_rollup(measures={"n": "count(*)"}),
        with_rollup(measures={"n": Measure("count(*)", "BIGINT", "Rows.")}),
    ),
    Example(
        "samples must be a Samples, not 5",
        "Declare a Samples.",
        with_columns(samples=5),
        with_columns(samples=SampleRecords([{"id": 1}])),
    ),
    Example(
        "samples cannot be written as JSON: Object of type Decimal is not JSON serializable",
        "Write each value as a record would contain it.",
        with_columns(samples=SampleRecords([{"id": Decimal(1)}])),
        with_columns(samples=SampleRecords([{"id": 1}])),
    ),
]
