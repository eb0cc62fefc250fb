"""Columns of bytes: the form of bytes within a text, and what has no bytes."""

from typing import Any

from lakehouse.declaration import Avro, Compressed, Debezium, Measure, Protobuf, RecordHeader, RecordKey
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.unit.declaration.advice.example import Example, of_measure, reads, reads_header, reads_key
from lakehouse_tests.unit.declaration.ratings import (
    MEASURES,
    column,
    computed,
    declare_rollup,
    oldest,
    with_check,
    with_column,
    with_columns,
    with_reference,
)

HEX: dict[str, Any] = {"type_": "BINARY", "written": "hex"}
PHOTO, TEXT = column("photo", **HEX), column("photo", "STRING")
OF_FORM = (
    'Bytes in a text have one of the forms written="base64", written="base64url" or written="hex". Declare that of the'
    " records."
)
OF_TEXT = "These texts are bytes. Declare BINARY, or remove written, to store a text as it is."
OF_SQL = "No SQL of a declaration reads bytes. Compute it where the table is read."
OF_PLACE = "Name another column. If the field is a text, a STRING without written holds it as it is."
OF_JSON = (
    'Bytes are a text there. Write Column("n", "BINARY", ..., written="base64"), or one of the forms base64url and hex.'
)
WITHIN = (
    "A field within objects can be a BINARY column of its own, with its path as source. Within arrays and maps, declare"
    " STRING if the values are texts, or leave the field out."
)
EXAMPLES = [
    Example(
        "column n: values of format Json have no bytes",
        OF_JSON,
        with_column(type_="BINARY"),
        reads("AQI=", b"\x01\x02", type_="BINARY", written="base64"),
        reads("-_8", b"\xfb\xff", type_="BINARY", written="base64url"),
        reads("0102", b"\x01\x02", **HEX),
        with_columns(column(type_="BINARY"), format=Avro()),
        with_columns(column(type_="BINARY"), format=Compressed(Protobuf(), "gzip")),
        with_columns(column(type_="BINARY"), format=Debezium(Avro())),
        reads_key(b"\xff", b"\xff", type_="BINARY", source=RecordKey()),
    ),
    Example(
        "column n: values of format Debezium have no bytes",
        OF_JSON,
        with_columns(column(type_="BINARY"), format=Debezium()),
        *(
            with_columns(column(type_="BINARY", written=form), format=Debezium())
            for form in ("base64", "base64url", "hex")
        ),
    ),
    Example(
        "column n: written='text' does not fit BINARY",
        OF_FORM,
        with_column(type_="BINARY", written="text"),
        reads("0102", b"\x01\x02", **HEX),
    ),
    Example(
        "column n: written='base64' does not fit STRING",
        OF_TEXT,
        with_column(type_="STRING", written="base64"),
        reads("AQI=", b"\x01\x02", type_="BINARY", written="base64"),
        reads("AQI=", "AQI=", type_="STRING"),
    ),
    Example(
        "column n: a computed column cannot be BINARY",
        "SQL computes no bytes. Read the column from a field.",
        with_columns(computed("id", type_="BINARY")),
        reads("01", b"\x01", **HEX),
    ),
    Example(
        "column n: BINARY without written and null_values cannot be combined",
        "Bytes are not a text. Remove null_values.",
        with_column(type_="BINARY", source=RecordHeader("m"), null_values=("",)),
        reads_header(b"", b"", type_="BINARY", source=RecordHeader("m")),
    ),
    Example(
        "column n: BINARY without written and default cannot be combined",
        "Bytes are not a text. Remove default.",
        with_column(type_="BINARY", source=RecordHeader("m"), default="00"),
        with_column(type_="BINARY", source=RecordHeader("m")),
    ),
    Example(
        "column n: STRUCT<a: BINARY> contains BINARY, which is only the type of a column",
        WITHIN,
        with_column(type_="STRUCT<a: BINARY>"),
        reads({"a": "01"}, b"\x01", **HEX, source=("n", "a")),
        reads(["01"], ["01"], type_="ARRAY<STRING>"),
    ),
    Example(
        "version cannot use column photo of type BINARY",
        OF_PLACE,
        with_columns(PHOTO, version=oldest("photo")),
        with_columns(PHOTO, version=oldest("stars")),
        with_columns(TEXT, version=oldest("photo")),
    ),
    Example(
        "column photo is BINARY, but base files have only numbers, times, booleans and texts",
        "Remove base, or the column.",
        with_columns(PHOTO, base=temperatures.base),
        with_columns(PHOTO),
        with_columns(base=temperatures.base),
    ),
    Example(
        "reference movies: column photo cannot have type BINARY",
        "Remove the column. If the field is a text, a STRING without written holds it as it is.",
        with_reference(PHOTO),
        with_reference(TEXT),
    ),
    Example(
        "rollup by_movie: measure ratings: no measure can be BINARY",
        "Declare a number, a time, a boolean or a STRING.",
        lambda: declare_rollup(measures={"ratings": Measure("max(id)", "BINARY", "")}),
        lambda: declare_rollup(measures=MEASURES),
        lambda: declare_rollup(measures={"ratings": Measure("max(id)", "STRING", "")}),
    ),
    of_measure("{} uses the BINARY column photo", OF_SQL, ["max(photo)", "max(id)"], PHOTO),
    Example(
        "check c: 'PHOTO IS NULL' uses the BINARY column PHOTO",
        OF_SQL,
        with_check("PHOTO IS NULL", PHOTO),
        with_columns(PHOTO),
    ),
    Example(
        "column n: 'photo IS NULL': photo is BINARY",
        OF_SQL,
        with_columns(PHOTO, computed("photo IS NULL", type_="BOOLEAN")),
        with_columns(PHOTO, computed("stars IS NULL", type_="BOOLEAN")),
    ),
]
