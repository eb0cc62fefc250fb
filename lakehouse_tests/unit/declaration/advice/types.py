"""Types: those that there are, and what every part of a declaration has to be."""

import json
from datetime import timedelta
from decimal import Decimal

from lakehouse.declaration import Day, Measure, Month, SampleRecords, Value, Year
from lakehouse_tests.unit.declaration.advice.example import Example, read
from lakehouse_tests.unit.declaration.ratings import column, grouped, more, one

FIELDS = ", ".join(f"f{number}: INT" for number in range(200))
DEEP = "STRUCT<a: " * 9 + "INT" + ">" * 9
DEEP_OBJECT = json.loads('{"a": ' * 9 + "5" + "}" * 9)
EXAMPLES = [
    Example(
        "column n: unknown type FLOAT",
        (
            "Declare STRING, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale), or for nested "
            "values ARRAY<type>, MAP<STRING, type> or STRUCT<name: type, ...>."
        ),
        one(type_="FLOAT"),
        one(type_="STRING"),
        one(type_="DOUBLE"),
        one(type_="DECIMAL(9,2)"),
        one(type_="ARRAY<DOUBLE>"),
        one(type_="MAP<STRING, DOUBLE>"),
        one(type_="STRUCT<x: DOUBLE, y: DOUBLE>"),
    ),
    Example(
        "column n: DECIMAL(99,2) has 99 digits",
        "A decimal has at most 38 digits: declare fewer.",
        one(type_="DECIMAL(99,2)"),
        one(type_="DECIMAL(38,2)"),
    ),
    Example(
        "column n: DECIMAL(2,5) has more decimal places than digits",
        "The first number is the count of all digits, the second the count of decimal places.",
        one(type_="DECIMAL(2,5)"),
        one(type_="DECIMAL(7,5)"),
    ),
    Example(
        "column n: its type has more than 200 fields",
        "Declare only the fields that you need.",
        one(type_=f"STRUCT<{FIELDS}, last: INT>"),
        one(type_=f"STRUCT<{FIELDS}>"),
    ),
    Example(
        "column n: its type has more than 8 levels",
        "Remove the deeper levels. Fields outside of arrays and maps can be columns, with their paths as source.",
        one(type_=DEEP),
        one(type_="STRUCT<a: " * 8 + "INT" + ">" * 8),
        read(one(source=("n", *"a" * 9)), {"n": DEEP_OBJECT}, n=5),
    ),
    Example(
        "column n: its type has more than 8 levels",
        "Remove the deeper levels. Fields outside of arrays and maps can be columns, with their paths as source.",
        one(type_=f"ARRAY<{DEEP}>"),
        one(type_="ARRAY<" + "STRUCT<a: " * 7 + "INT" + ">" * 8),
    ),
    Example(
        "column n: ARRAY<INT, INT> is not a valid array type",
        "The items have one type: declare ARRAY<type>.",
        one(type_="ARRAY<INT, INT>"),
        one(type_="ARRAY<INT>"),
    ),
    Example(
        "column n: MAP<INT, INT> is not a valid map type",
        "The keys are field names, which are strings: declare MAP<STRING, type>.",
        one(type_="MAP<INT, INT>"),
        read(one(type_="MAP<STRING, INT>"), {"n": {"1": 2}}, n=[("1", 2)]),
    ),
    Example(
        "column n: STRUCT<a-b: INT, c: INT> has the invalid field name 'a-b'",
        (
            "Declare STRUCT<name: type> with names of letters, digits and _. A field with another name can be a column,"
            " with its path as source, unless it is inside an array or a map."
        ),
        one(type_="STRUCT<a-b: INT, c: INT>"),
        one(type_="STRUCT<a_b: INT, c: INT>"),
        read(
            more(column("n", "STRUCT<c: INT>"), column("m", source=("n", "a-b"))),
            {"n": {"a-b": 1, "c": 2}},
            n={"c": 2},
            m=1,
        ),
    ),
    Example(
        "column n: STRUCT<a: INT, A: INT> has two fields a",
        "Spark ignores case in field names: remove one of the fields.",
        one(type_="STRUCT<a: INT, A: INT>"),
        one(type_="STRUCT<a: INT>"),
    ),
    Example(
        "topic is text, and not None",
        "Declare text.",
        more(topic=None),
        more(topic="ratings"),
    ),
    Example(
        "retention is a timedelta, and not 7",
        "Declare a timedelta.",
        more(retention=7),
        more(retention=timedelta(days=7)),
    ),
    Example(
        "order is timestamp or offset, and not 'offsets'",
        "Declare timestamp or offset.",
        more(order="offsets"),
        more(order="timestamp"),
        more(order="offset"),
    ),
    Example(
        "key: each is text, and not 5",
        "Declare text.",
        more(key=["id", 5]),
        more(key=["id"]),
    ),
    Example(
        "key is a list or tuple, and not 'id'",
        "Declare a list or tuple.",
        more(key="id"),
        more(key=["id"]),
        more(key=("id",)),
    ),
    Example(
        "partition_by is a Day or a Month or a Year or a Value, and not 'rated_at'",
        "Declare a Day or a Month or a Year or a Value.",
        more(partition_by="rated_at"),
        more(partition_by=Day("rated_at")),
        more(partition_by=Month("rated_at")),
        more(partition_by=Year("rated_at")),
        more(partition_by=Value("stars")),
    ),
    Example(
        "column n: default is text or True or False or a number, and not []",
        "Declare text or True or False or a number.",
        one(default=[]),
        read(one(type_="STRING", default="a"), {}, n="a"),
        read(one(type_="BOOLEAN", default=True), {}, n=True),
        read(one(default=3), {}, n=3),
    ),
    Example(
        "rollup by_movie: measure n is a Measure, and not 'count(*)'",
        "Declare a Measure.",
        grouped(measures={"n": "count(*)"}),
        grouped(measures={"n": Measure("count(*)", "BIGINT", "Rows.")}),
    ),
    Example(
        "samples is a Samples, and not 5",
        "Declare a Samples.",
        more(samples=5),
        more(samples=SampleRecords([{"id": 1}])),
    ),
    Example(
        "its samples are no JSON: Object of type Decimal is not JSON serializable",
        "Write each value as it would stand in a record.",
        more(samples=SampleRecords([{"id": Decimal(1)}])),
        more(samples=SampleRecords([{"id": 1}])),
    ),
]
