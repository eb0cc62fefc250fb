"""Types of columns, and types of the parts of a declaration."""

import json
from datetime import timedelta
from decimal import Decimal

from lakehouse.declaration import Day, Measure, Month, SampleRecords, Value, Year
from lakehouse_tests.unit.declaration.advice.example import (
    Example,
    accept,
    of_column,
    of_rollup,
    of_table,
    of_topic,
    of_upkeep,
    reads,
)
from lakehouse_tests.unit.declaration.ratings import column, with_column, with_columns

FIELDS = ", ".join(f"f{number}: INT" for number in range(200))
DEEP = "STRUCT<a: " * 9 + "INT" + ">" * 9
DEEP_OBJECT = json.loads('{"a": ' * 9 + "5" + "}" * 9)
EXAMPLES = [
    of_column(
        "unknown type FLOAT",
        "Declare STRING, BINARY, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale), or for"
        " nested values ARRAY<type>, MAP<STRING, type> or STRUCT<name: type, ...>.",
        type_=[
            "FLOAT",
            "STRING",
            "DOUBLE",
            "DECIMAL(9,2)",
            "ARRAY<DOUBLE>",
            "MAP<STRING, DOUBLE>",
            "STRUCT<x: DOUBLE, y: DOUBLE>",
        ],
    ),
    of_column(
        "DECIMAL(99,2) has 99 digits",
        "A decimal has at most 38 digits: declare fewer.",
        type_=["DECIMAL(99,2)", "DECIMAL(38,2)"],
    ),
    of_column(
        "DECIMAL(2,5) has more decimal places than digits",
        "The first number is the count of all digits, the second the count of decimal places.",
        type_=["DECIMAL(2,5)", "DECIMAL(7,5)"],
    ),
    of_column(
        "its type has more than 200 fields",
        "Declare only the fields that you need.",
        type_=[f"STRUCT<{FIELDS}, last: INT>", f"STRUCT<{FIELDS}>"],
    ),
    of_column(
        "its type has more than 8 levels",
        "Remove the deeper levels. Fields outside of arrays and maps can be columns, with their paths as source.",
        reads(DEEP_OBJECT, 5, source=("n", *"a" * 9)),
        type_=[DEEP, "STRUCT<a: " * 8 + "INT" + ">" * 8],
    ),
    of_column(
        "its type has more than 8 levels",
        "Remove the deeper levels. Fields outside of arrays and maps can be columns, with their paths as source.",
        type_=[f"ARRAY<{DEEP}>", "ARRAY<" + "STRUCT<a: " * 7 + "INT" + ">" * 8],
    ),
    of_column(
        "ARRAY<INT, INT> is not a valid array type",
        "The items have one type: declare ARRAY<type>.",
        type_=["ARRAY<INT, INT>", "ARRAY<INT>"],
    ),
    Example(
        "column n: MAP<INT, INT> is not a valid map type",
        "The keys are field names, which are strings: declare MAP<STRING, type>.",
        with_column(type_="MAP<INT, INT>"),
        reads({"1": 2}, [("1", 2)], type_="MAP<STRING, INT>"),
    ),
    of_column(
        "STRUCT<a-b: INT, c: INT> has the invalid field name 'a-b'",
        "Declare STRUCT<name: type> with names of letters, digits and _. A field with another name can be a column,"
        " with its path as source, unless it is inside an array or a map.",
        accept(
            with_columns(column("n", "STRUCT<c: INT>"), column("m", source=("n", "a-b"))),
            {"n": {"a-b": 1, "c": 2}},
            n={"c": 2},
            m=1,
        ),
        type_=["STRUCT<a-b: INT, c: INT>", "STRUCT<a_b: INT, c: INT>"],
    ),
    of_column(
        "STRUCT<a: INT, A: INT> has two fields a",
        "Spark ignores case in field names: remove one of the fields.",
        type_=["STRUCT<a: INT, A: INT>", "STRUCT<a: INT>"],
    ),
    of_table("topic must be a string, not None", "Declare a string.", topic=[None, "ratings"]),
    of_upkeep("upkeep: retention must be a timedelta, not 7", "Declare a timedelta.", retention=[7, timedelta(days=7)]),
    of_topic(
        "source: order must be timestamp or offset, not 'offsets'",
        "Declare timestamp or offset.",
        order=["offsets", "timestamp", "offset"],
    ),
    of_table("key is missing", "Add key=... to it.", key=[None, ["id"]]),
    of_table("key: each item must be a string, not 5", "Declare a string.", key=[["id", 5], ["id"]]),
    of_table("key must be a list or tuple, not 'id'", "Declare a list or tuple.", key=["id", ["id"], ("id",)]),
    of_table(
        "partition_by must be a Day, a Month, a Year or a Value, not 'rated_at'",
        "Declare a Day, a Month, a Year or a Value.",
        partition_by=["rated_at", Day("rated_at"), Month("rated_at"), Year("rated_at"), Value("stars")],
    ),
    Example(
        "column n: default must be a string, True or False or a number, not []",
        "Declare a string, True or False or a number.",
        with_column(default=[]),
        accept(with_column(type_="STRING", default="a"), {}, n="a"),
        accept(with_column(type_="BOOLEAN", default=True), {}, n=True),
        accept(with_column(default=3), {}, n=3),
    ),
    of_rollup(
        "measure n must be a Measure, not 'count(*)'",
        "Declare a Measure.",
        measures=[{"n": "count(*)"}, {"n": Measure("count(*)", "BIGINT", "Rows.")}],
    ),
    of_table("samples must be a Samples, not 5", "Declare a Samples.", samples=[5, SampleRecords([{"id": 1}])]),
    of_table(
        "samples cannot be written as JSON: Object of type Decimal is not JSON serializable",
        "Write each value as a record would contain it.",
        samples=[SampleRecords([{"id": Decimal(1)}]), SampleRecords([{"id": 1}])],
    ),
]
