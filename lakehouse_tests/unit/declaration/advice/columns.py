"""Columns: their names, sources, defaults and bounds."""

from datetime import date
from decimal import Decimal

from lakehouse.declaration import Avro, Month, RecordHeader, RecordKey, Time, UnmappedFields, ValueOrObject
from lakehouse_tests.unit.declaration.advice.example import Example, accept, of_column, reads, reads_header, reads_key
from lakehouse_tests.unit.declaration.ratings import column, computed, with_column, with_columns

EXAMPLES = [
    Example(
        "column n: rounding is only allowed for a DECIMAL, but the column is DOUBLE",
        "Remove rounding.",
        with_column(type_="DOUBLE", rounding="reject"),
        with_column(type_="DOUBLE"),
        reads(1.5, Decimal("1.50"), type_="DECIMAL(9,2)", rounding="reject"),
    ),
    Example(
        "column 'N': a name has at most 200 lower-case letters, digits and _, and starts with a letter",
        "Choose another name, and set source= to the name of the field.",
        with_column(name="N"),
        accept(with_column(name="n", source="N"), {"N": 3}, n=3),
    ),
    Example(
        "two columns have the same name: n",
        "Rename one, and set its source= to the name of the field.",
        with_columns(column("n"), column("n")),
        accept(with_columns(column("n"), column("m", source="n")), {"n": 3}, n=3, m=3),
    ),
    Example(
        "column n: INT does not hold every value of widened_from BIGINT",
        "Widen INT to BIGINT, DOUBLE or a DECIMAL of 10 digits before the point, or a DECIMAL to more digits. For "
        "other types, remove widened_from and use lakehouse rewrite.",
        with_column(widened_from="BIGINT"),
        with_column(type_="BIGINT", widened_from="INT"),
        with_column(type_="DOUBLE", widened_from="INT"),
        with_column(type_="DECIMAL(12,2)", widened_from="INT"),
        with_column(type_="DECIMAL(11,2)", widened_from="DECIMAL(9,2)"),
    ),
    of_column(
        "type ARRAY<STRING> is only allowed for a field of a record's value",
        "Declare another type, or read the column from a field.",
        reads(["a"], ["a"], type_="ARRAY<STRING>"),
        source=RecordHeader("n"),
        type_=["ARRAY<STRING>", "STRING"],
    ),
    Example(
        "column n: type ARRAY<STRING> is only allowed for a field of a record's value",
        "Declare another type, or read the column from a field.",
        with_columns(computed("id", type_="ARRAY<STRING>")),
        with_columns(computed("id", type_="BIGINT")),
        reads(["a"], ["a"], type_="ARRAY<STRING>"),
    ),
    Example(
        "column n: required and keep cannot be combined",
        "A record without a value leaves a kept column unchanged. Remove one of the two.",
        with_column(required=True, keep=True),
        reads(3, 3, required=True),
        with_column(keep=True),
    ),
    Example(
        "column n: null_erases requires keep",
        "A column without keep stores every null anyway. Add keep, or remove null_erases.",
        with_column(null_erases=True),
        with_column(keep=True, null_erases=True),
    ),
    Example(
        "column n: null_erases is only allowed for a field of a record's value",
        "A key, a header or a broker time is present or missing, but never null. Remove null_erases.",
        with_column(keep=True, null_erases=True, source=RecordKey()),
        with_column(keep=True, source=RecordKey()),
    ),
    Example(
        "column n: source is empty",
        "Name the field, or the path that leads to it.",
        with_column(source=""),
        accept(with_column(source="m"), {"m": 3}, n=3),
        accept(with_column(source=("a", "m")), {"a": {"m": 3}}, n=3),
    ),
    Example(
        "column n: source is empty",
        "Name the field, or the path that leads to it.",
        with_column(source=()),
        accept(with_column(source=("a", "m")), {"a": {"m": 3}}, n=3),
    ),
    Example(
        "column n: source is empty",
        "Name the field, or the path that leads to it.",
        with_column(source=RecordHeader("")),
        reads_header(b"3", 3, source=RecordHeader("m")),
    ),
    of_column(
        "the name of its header is not valid UTF-8",
        "No record can have this header. Correct the name.",
        source=[RecordHeader("\ud800"), RecordHeader("m")],
    ),
    Example(
        "column n: null_values contain a number with an exponent out of range",
        "Remove it: no record can contain it.",
        with_column(null_values=("1e99999999999999999999",)),
        with_column(),
    ),
    Example(
        "column n: formerly is only allowed for a field of a record's value",
        "Remove formerly: a key, a header or a broker time cannot be renamed.",
        with_column(formerly="m", source=RecordKey()),
        reads_key(b"3", 3, source=RecordKey()),
    ),
    Example(
        "column n: formerly is empty",
        "Name the field, or the path that led to it.",
        with_column(formerly=""),
        accept(with_column(formerly="m"), {"m": 3}, n=3),
        accept(with_column(formerly=("a", "m")), {"a": {"m": 3}}, n=3),
    ),
    Example(
        "column n: formerly is the current name of the field: n",
        "Write the name that it had before.",
        with_column(formerly="n"),
        accept(with_column(formerly="m"), {"m": 3}, n=3),
    ),
    Example(
        "column n: ValueOrObject has an empty path",
        'Name both fields: ValueOrObject("customer", "id").',
        with_column(source=ValueOrObject("customer", "")),
        accept(with_column(source=ValueOrObject("customer", "id")), {"customer": {"id": 3}}, n=3),
    ),
    Example(
        "column n: ValueOrObject is not allowed in format Avro",
        "A schema says whether the field is an object. Name the field, or its path, as source.",
        with_columns(column(source=ValueOrObject("m", "id")), format=Avro()),
        with_columns(column(source="m"), format=Avro()),
    ),
    Example(
        "column n: ValueOrObject requires a value that cannot be an object itself",
        "Declare a scalar type without a form that reads objects, or name the field as source.",
        with_column(type_="STRING", written="json", source=ValueOrObject("m", "id")),
        accept(with_column(type_="STRING", source=ValueOrObject("m", "id")), {"m": "a"}, n="a"),
        accept(with_column(type_="STRING", written="json", source="m"), {"m": {"id": 3}}, n='{"id":3}'),
    ),
    Example(
        "column n: formerly and ValueOrObject cannot be combined",
        "Remove one of the two.",
        with_column(source=ValueOrObject("m", "id"), formerly="k"),
        accept(with_column(source=ValueOrObject("m", "id")), {"m": 3}, n=3),
        accept(with_column(source="m", formerly="k"), {"k": 3}, n=3),
    ),
    Example(
        "column n: required and default cannot be combined",
        "A column with a default always has a value. Remove one of the two.",
        with_column(default=1, required=True),
        accept(with_column(default=1), {}, n=1),
        reads(3, 3, required=True),
    ),
    Example(
        "column n: keep and default cannot be combined",
        "A column with a default always has a value. Remove one of the two.",
        with_column(default=1, keep=True),
        accept(with_column(default=1), {}, n=1),
        with_column(keep=True),
    ),
    Example(
        "column n: the default cannot be read: 'n' is text '1', expected INT",
        "Write it as a record would contain it.",
        with_column(default="1"),
        accept(with_column(default=1), {}, n=1),
    ),
    Example(
        "column n: the default cannot be read: 'n' is '2023-02-30'",
        "Write it as a record would contain it.",
        with_column(type_="DATE", written=Time("%Y-%m-%d"), default="2023-02-30"),
        accept(with_column(type_="DATE", written=Time("%Y-%m-%d"), default="2023-03-30"), {}, n=date(2023, 3, 30)),
    ),
    Example(
        "column n: type ARRAY<INT> cannot have a default",
        "Remove the default: arrays, maps and structs have none.",
        with_column(type_="ARRAY<INT>", default="[]"),
        reads([], [], type_="ARRAY<INT>"),
    ),
    Example(
        "column n: between is only allowed for numbers, but the column is STRING",
        "Remove between.",
        with_column(type_="STRING", between=(1, 2)),
        with_column(type_="STRING"),
    ),
    of_column(
        "between must be two numbers, not (None, 1)",
        "Declare the smallest and the largest allowed value.",
        between=[(None, 1), (0, 1)],
    ),
    Example(
        "column n: between is 5 to 1, so no value is allowed",
        "Declare the smallest value first.",
        with_column(between=(5, 1)),
        reads(5, 5, between=(1, 5)),
    ),
    Example(
        "column n: between exceeds the range of INT, which is -2147483648 to 2147483647",
        "Declare a wider type, or bounds within its range.",
        with_column(between=(0, 2**31)),
        reads(2**31, 2**31, type_="BIGINT", between=(0, 2**31)),
        with_column(between=(0, 2**31 - 1)),
    ),
    Example(
        "column n: between is 0.2 to 0.8, which contains no value of INT",
        "Declare bounds with a value between them.",
        with_column(between=(0.2, 0.8)),
        reads(1, 1, between=(0.2, 1.8)),
    ),
    Example(
        "column n: sql is empty",
        "Write an expression over other columns, for example rating >= 7.",
        with_columns(computed("")),
        with_columns(computed("stars >= 4", type_="BOOLEAN")),
    ),
    Example(
        "column rated_month: the name is used by the partition column",
        "Choose another name, and set source= to the name of the field.",
        with_columns(column("rated_month"), partition_by=Month("rated_at")),
        accept(
            with_columns(column("month", source="rated_month"), partition_by=Month("rated_at")),
            {"rated_month": 3},
            month=3,
        ),
    ),
    Example(
        "column n: unmapped fields cannot be INT",
        "Declare STRING.",
        with_column(source=UnmappedFields()),
        accept(with_column(type_="STRING", source=UnmappedFields()), {"more": 1}, n='{"more":1}'),
    ),
    Example(
        "column n: default is not allowed for unmapped fields",
        "Remove default: its values are as they are.",
        with_column(type_="STRING", source=UnmappedFields(), default="{}"),
        accept(with_column(type_="STRING", source=UnmappedFields()), {}, n=None),
    ),
    Example(
        "columns n and m read the unmapped fields",
        "One column takes all of them. Remove the others.",
        with_columns(*(column(name, "STRING", source=UnmappedFields()) for name in "nm")),
        with_columns(column("n", "STRING", source=UnmappedFields())),
    ),
    Example(
        "column n: UnmappedFields() is not allowed in format Avro",
        "Its values have types that JSON cannot write. Declare a column for each field that you need.",
        with_columns(column("n", "STRING", source=UnmappedFields()), format=Avro()),
        with_columns(column("n", "STRING"), format=Avro()),
    ),
]
