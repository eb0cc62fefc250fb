"""Columns: their names, where their values come from, and what may stand for a value."""

from datetime import date

from lakehouse.declaration import Month, RecordHeader, RecordKey
from lakehouse_tests.unit.declaration.advice.example import Example, Read, read
from lakehouse_tests.unit.declaration.ratings import column, more, one

EXAMPLES = [
    Example(
        "column 'N': names are lower case letters, digits and _, begin with a letter and have at most 200 characters",
        "Choose another name, and name the field in its source.",
        one(name="N"),
        read(one(name="n", source="N"), {"N": 3}, n=3),
    ),
    Example(
        "two columns have the same name: n",
        "Give one another, and name the field in its source.",
        more(column("n"), column("n")),
        read(more(column("n"), column("m", source="n")), {"n": 3}, n=3, m=3),
    ),
    Example(
        "column n: widened_from BIGINT to INT: not every value stays as it is",
        (
            "Widen INT to BIGINT, DOUBLE or a DECIMAL of 10 digits before its places, or a DECIMAL by digits; else "
            "leave widened_from out: lakehouse rewrite is for other types."
        ),
        one(widened_from="BIGINT"),
        one(type_="BIGINT", widened_from="INT"),
        one(type_="DOUBLE", widened_from="INT"),
        one(type_="DECIMAL(12,2)", widened_from="INT"),
        one(type_="DECIMAL(11,2)", widened_from="DECIMAL(9,2)"),
        one(),
    ),
    Example(
        "column n: it is ARRAY<STRING>, which only a field of a record's value is",
        "Declare another type, or its field.",
        one(type_="ARRAY<STRING>", source=RecordHeader("n")),
        one(type_="STRING", source=RecordHeader("n")),
        read(one(type_="ARRAY<STRING>"), {"n": ["a"]}, n=["a"]),
    ),
    Example(
        "column n: it is ARRAY<STRING>, which only a field of a record's value is",
        "Declare another type, or its field.",
        one(type_="ARRAY<STRING>", sql="id"),
        one(type_="BIGINT", sql="id"),
        read(one(type_="ARRAY<STRING>"), {"n": ["a"]}, n=["a"]),
    ),
    Example(
        "column n: required or keep, not both",
        "A record without a value leaves a kept column alone: leave one out.",
        one(required=True, keep=True),
        read(one(required=True), {"n": 3}, n=3),
        one(keep=True),
    ),
    Example(
        "column n: null_erases and no keep",
        "A null is stored as it is where a column is not kept: declare keep, or neither.",
        one(null_erases=True),
        one(keep=True, null_erases=True),
        one(),
    ),
    Example(
        "column n: null_erases is for fields of a record's value",
        "What stands beside the value is there or missing: leave null_erases out.",
        one(keep=True, null_erases=True, source=RecordKey()),
        one(keep=True, source=RecordKey()),
    ),
    Example(
        "column n: its source names no field",
        "Name it, or the fields that lead to it.",
        one(source=""),
        read(one(source="m"), {"m": 3}, n=3),
        read(one(source=("a", "m")), {"a": {"m": 3}}, n=3),
    ),
    Example(
        "column n: its source names no field",
        "Name it, or the fields that lead to it.",
        one(source=()),
        read(one(source=("a", "m")), {"a": {"m": 3}}, n=3),
    ),
    Example(
        "column n: its source names no field",
        "Name it, or the fields that lead to it.",
        one(source=RecordHeader("")),
        Read(one(source=RecordHeader("m")), {}, {"n": 3}, {"headers": {"m": b"3"}}),
    ),
    Example(
        "column n: its header is named by what is no text in UTF-8",
        "No record can have it: name one that can be written.",
        one(source=RecordHeader("\ud800")),
        one(source=RecordHeader("m")),
    ),
    Example(
        "column n: its null_values have a number that is beyond any",
        "Leave it out: no record can have it.",
        one(null_values=("1e99999999999999999999",)),
        one(),
    ),
    Example(
        "column n: formerly is for fields of a record's value",
        "Leave it out: what stands beside the value has no name.",
        one(formerly="m", source=RecordKey()),
        Read(one(source=RecordKey()), {}, {"n": 3}, {"key": b"3"}),
    ),
    Example(
        "column n: formerly names no field",
        "Name it, or the fields that led to it.",
        one(formerly=""),
        read(one(formerly="m"), {"m": 3}, n=3),
        read(one(formerly=("a", "m")), {"a": {"m": 3}}, n=3),
    ),
    Example(
        "column n: formerly is the name that it has: n",
        "Name the one that it had before.",
        one(formerly="n"),
        read(one(formerly="m"), {"m": 3}, n=3),
    ),
    Example(
        "column n: its key is the bytes of a number, and it is STRING",
        "Declare INT for four bytes, BIGINT for eight.",
        one(type_="STRING", source=RecordKey("big_endian")),
        Read(one(source=RecordKey("big_endian")), {}, {"n": 3}, {"key": bytes([0, 0, 0, 3])}),
        Read(one(type_="BIGINT", source=RecordKey("big_endian")), {}, {"n": 3}, {"key": bytes([0] * 7 + [3])}),
    ),
    Example(
        "column n: required or default, not both",
        "With a default there is always a value: leave one out.",
        one(default=1, required=True),
        read(one(default=1), {}, n=1),
        read(one(required=True), {"n": 3}, n=3),
    ),
    Example(
        "column n: keep or default, not both",
        "With a default there is always a value: leave one out.",
        one(default=1, keep=True),
        read(one(default=1), {}, n=1),
        one(keep=True),
    ),
    Example(
        "column n: its default cannot be read: 'n' is text '1', expected INT",
        "Write it as it would stand in a record.",
        one(default="1"),
        read(one(default=1), {}, n=1),
    ),
    Example(
        "column n: its default cannot be read: 'n' is '2023-02-30'",
        "Write it as it would stand in a record.",
        one(type_="DATE", pattern="%Y-%m-%d", default="2023-02-30"),
        read(one(type_="DATE", pattern="%Y-%m-%d", default="2023-03-30"), {}, n=date(2023, 3, 30)),
    ),
    Example(
        "column n: it has a default, and it is ARRAY<INT>",
        "Values that hold others have none: leave it out.",
        one(type_="ARRAY<INT>", default="[]"),
        read(one(type_="ARRAY<INT>"), {"n": []}, n=[]),
    ),
    Example(
        "column n: between is for numbers, and it is STRING",
        "Leave between out.",
        one(type_="STRING", between=(1, 2)),
        one(type_="STRING"),
    ),
    Example(
        "column n: between needs two numbers, and is (None, 1)",
        "Declare the least and the greatest value allowed.",
        one(between=(None, 1)),
        one(between=(0, 1)),
    ),
    Example(
        "column n: between begins at 5 and ends at 1: no value passes",
        "Declare the least value first.",
        one(between=(5, 1)),
        read(one(between=(1, 5)), {"n": 5}, n=5),
    ),
    Example(
        "column n: between goes beyond what INT holds, which is -2147483648 to 2147483647",
        "Declare a wider type, or bounds within it.",
        one(between=(0, 2**31)),
        read(one(type_="BIGINT", between=(0, 2**31)), {"n": 2**31}, n=2**31),
        one(between=(0, 2**31 - 1)),
    ),
    Example(
        "column n: between is 0.2 to 0.8: no value of INT lies there",
        "Declare bounds with a value in between.",
        one(between=(0.2, 0.8)),
        read(one(between=(0.2, 1.8)), {"n": 1}, n=1),
    ),
    Example(
        "column n: sql or required, not both",
        "A computed column is what its SQL gives: leave one out.",
        one(sql="id + 1", required=True),
        one(sql="id + 1"),
        read(one(required=True), {"n": 3}, n=3),
    ),
    Example(
        "column n: has no SQL",
        "Declare an expression over other columns, as rating >= 7.",
        one(sql=""),
        one(type_="BOOLEAN", sql="stars >= 4"),
    ),
    Example(
        "column rated_month: the name is taken by the partition column",
        "Choose another, and name the field in its source.",
        more(column("rated_month"), partition_by=Month("rated_at")),
        read(more(column("month", source="rated_month"), partition_by=Month("rated_at")), {"rated_month": 3}, month=3),
    ),
]
