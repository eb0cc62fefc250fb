"""Formats that a project adds, and Avro with schemas of its own."""

from dataclasses import dataclass

from lakehouse.declaration import (
    Avro,
    BigEndian,
    Column,
    Compressed,
    Csv,
    Cut,
    Debezium,
    Deletes,
    FieldIs,
    FixedWidth,
    Json,
    Logfmt,
    Protobuf,
    Regex,
    Text,
    ValueOrObject,
)
from lakehouse.decoding.formats import Format
from lakehouse_tests.helpers.barred_format import Barred
from lakehouse_tests.unit.declaration.advice.example import Example, accept, of_column, of_table
from lakehouse_tests.unit.declaration.ratings import column, declare, with_columns


class Unwritten(Format):
    parser, writer = Barred.parser, Barred.writer
    names = ("id",)


@dataclass(frozen=True)
class Kindless(Barred):
    framed = needs_schemas = True


@dataclass(frozen=True)
class Kind(Kindless):
    schema_kind = "BARS"


@dataclass(frozen=True)
class Frameless(Barred):
    needs_schemas, schema_kind = True, "BARS"


FIELDS = ["id", "time", "stars"]
REGEX = Regex(r"(?P<id>\S+) (?P<time>\S+) (?P<stars>\S+)")
MESSAGE = 'syntax = "proto3"; message A { string id = 1; string time = 2; double stars = 3; }'
FIXED = FixedWidth([("id", 0, 8), ("time", 8, 40), ("stars", 40, 41)])
SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "note", "type": "string"}]}'
WHOLE_SCHEMA = "Correct the text of the schema. It must be that of a record, with all types that it refers to."
EXAMPLES = [
    of_table(
        "Json has checked, but not framed",
        "Add framed=True: the id in front of a record names its schema.",
        format=[Json(checked=True), Json(checked=True, framed=True)],
    ),
    of_table(
        "in_base64 of Json has an empty name",
        'Name the field, such as "data_base64", or the path to it.',
        format=[Json(in_base64=["data", ""]), Json(in_base64=["data", "inner"]), Json(in_base64="data_base64")],
    ),
    Example(
        "column n: the field of a ValueOrObject cannot be that of in_base64",
        "Name the field within the object as source, or remove in_base64.",
        with_columns(column(source=ValueOrObject("data", "n")), format=Json(in_base64="data")),
        with_columns(column(source=("data", "n")), format=Json(in_base64="data")),
        with_columns(column(source=ValueOrObject("data", "n"))),
    ),
    of_table(
        "Json has both checked and in_text",
        "Remove one of them: a schema describes the text, not what is in it.",
        format=[
            Json(framed=True, checked=True, in_text=True),
            Json(framed=True, checked=True),
            Json(framed=True, in_text=True),
        ],
    ),
    of_table(
        "Debezium cannot check JSON by its schemas",
        "Remove checked=True from the format inside.",
        format=[Debezium(Json(framed=True, checked=True)), Debezium(Json(framed=True))],
    ),
    Example(
        "size of BigEndian is 2",
        "Declare 8 for a long, or 4 for an integer.",
        with_columns(format=BigEndian(2)),
        lambda: declare(columns=[column("value")], key=[], format=BigEndian(4)),
    ),
    Example(
        "column value: type DOUBLE is not allowed in format BigEndian",
        "Its values are whole numbers. Declare BIGINT, or INT; the bytes of a double are others.",
        lambda: declare(columns=[column("value", "DOUBLE")], key=[], format=BigEndian()),
        lambda: declare(columns=[column("value", "BIGINT")], key=[], format=BigEndian()),
        lambda: declare(columns=[column("value")], key=[], format=BigEndian()),
    ),
    of_table(
        "schema of Avro cannot be used: its type is not a record",
        WHOLE_SCHEMA,
        format=[Avro(schema='"string"'), Avro(schema=SCHEMA)],
    ),
    of_table(
        "schemas[1] of Avro cannot be used: it is not an Avro schema: UnknownType: Address",
        WHOLE_SCHEMA,
        format=[
            Avro(schemas=[SCHEMA, SCHEMA.replace('"string"', '"Address"')]),
            Avro(schemas=[SCHEMA, SCHEMA.replace('"string"', '"long"')]),
        ],
    ),
    of_table(
        "Avro has both schema and schemas",
        "Keep schema= for values without a header, or schemas= for single-object encoding.",
        format=[Avro(schema=SCHEMA, schemas=[SCHEMA]), Avro(schemas=[SCHEMA])],
    ),
    of_table(
        "schemas of Avro is empty",
        "List the text of each schema that records were written with.",
        format=[Avro(schemas=[]), Avro(schemas=[SCHEMA])],
    ),
    of_table(
        "schemas[1] of Avro has the same fingerprint as one before it: fa595fd7112b047d",
        "Remove one of them. A record could not say which of them wrote it.",
        format=[Avro(schemas=[SCHEMA, SCHEMA]), Avro(schemas=[SCHEMA])],
    ),
    of_table(
        "Debezium cannot use Avro with schemas of its own",
        "Use Debezium(Avro()): connectors write Avro with a registry, which has the types of the database.",
        format=[Debezium(Avro(schema=SCHEMA)), Debezium(Avro())],
    ),
    of_table(
        "format Unwritten is not a frozen dataclass",
        "Make it a frozen dataclass: its repr shows whether the declaration of a table has changed.",
        format=[Unwritten(), Barred(("id",))],
    ),
    of_table(
        "format Kindless needs schemas, but it is not framed or has no schema_kind",
        "Set framed and schema_kind: the id in front of a value selects a schema of that kind.",
        format=[Kindless(("id",)), Kind(("id",))],
    ),
    Example(
        "unknown encoding 'latin-99'",
        "Write utf-8, or a name that Python has, such as latin-1, cp1252 or iso8859-15.",
        with_columns(format=Json(encoding="latin-99")),
        accept(with_columns(format=Json(encoding="utf-8")), {}),
        with_columns(format=Csv(FIELDS, encoding="latin-1")),
    ),
    of_table(
        "format Frameless needs schemas, but it is not framed or has no schema_kind",
        "Set framed and schema_kind: the id in front of a value selects a schema of that kind.",
        format=[Frameless(("id",)), Kind(("id",))],
    ),
    of_table(
        "encoding 'utf-16' does not have one byte for each character",
        "Declare utf-8 or an 8-bit encoding such as latin-1, cp1252 or iso8859-15. Have other records sent in UTF-8.",
        format=[Compressed(Logfmt(encoding="utf-16"), "gzip"), Compressed(Logfmt(encoding="cp1252"), "gzip")],
    ),
    of_table(
        "Csv needs the names of its columns",
        'Name each field of a row, for example columns=["id", "price"].',
        format=[Csv([]), Csv(FIELDS)],
    ),
    of_table(
        "column 'id' of Csv is listed twice",
        "Give each field of a row its own name.",
        format=[Csv([*FIELDS, "id"]), Csv([*FIELDS, "former_id"])],
    ),
    of_table(
        "delimiter '\\n' of Csv is not one character other than a quote or a line break",
        'Write one character, for example "," or "\\t".',
        format=[Csv(FIELDS, delimiter="\n"), Csv(FIELDS, delimiter="\t")],
    ),
    of_table(
        "format Compressed contains another Compressed",
        "Name the format of the decompressed values.",
        format=[Compressed(Compressed(Json(), "gzip"), "zstd"), Compressed(Json(), "zstd")],
    ),
    Example(
        "column town reads the field hoem, which format Csv does not have",
        "Did you mean home? Name one of its fields: id, time, stars, home.",
        with_columns(Column("town", "STRING", "Where.", source=("hoem", "town")), format=Csv([*FIELDS, "home"])),
        with_columns(Column("town", "STRING", "Where.", source=("home", "town")), format=Csv([*FIELDS, "home"])),
    ),
    Example(
        "column town reads the field twon, which format Csv does not have",
        "Did you mean town? Name one of its fields: id, time, stars, town.",
        with_columns(Column("town", "STRING", "Where.", source="twon"), format=Csv([*FIELDS, "town"])),
        with_columns(Column("town", "STRING", "Where."), format=Csv([*FIELDS, "town"])),
    ),
    of_table(
        "the schema of Protobuf cannot be used: it has no message 'B', but A",
        "Name a file, or write its text; message= is the full name of a message in it, such as a.B.",
        format=[Protobuf(MESSAGE, "B"), Protobuf(MESSAGE, "A")],
    ),
    of_table(
        "Protobuf has message or imports without schema",
        "Add schema=, or remove them.",
        format=[Protobuf(message="A"), Protobuf(MESSAGE, "A")],
    ),
    of_table(
        "the pattern of Regex cannot be used: Invalid regular expression: missing ): ^(?:(?P<id>.*)$",
        "Write a regular expression as RE2 knows it, in which each group is (?P<name>...) or (?:...). RE2 has no"
        " look-ahead, no look-behind and no back-reference.",
        format=[Regex("(?P<id>.*"), REGEX],
    ),
    of_table(
        "the pattern of Regex has no group (?P<name>...) for a field",
        "Write a regular expression as RE2 knows it, in which each group is (?P<name>...) or (?:...). RE2 has no"
        " look-ahead, no look-behind and no back-reference.",
        format=[Regex(".*"), REGEX],
    ),
    of_column(
        "the pattern of Cut may match a part of a character",
        "Remove \\C, and half of a surrogate pair.",
        source=[Cut("t", r"(?P<n>\C)"), Cut("t", r"(?P<n>.)"), Cut("t", r"(?P<n>.*)\\C")],
    ),
    of_column(
        "Cut has an empty path",
        'Name the field: Cut("log", ...).',
        source=[Cut("", (0, 2)), Cut("t", (0, 2))],
    ),
    of_column(
        "Cut has the places (5, 3)",
        "Write two as in Python: (0, 6) are the characters text[0:6].",
        source=[Cut("t", (5, 3)), Cut("t", (3, 5))],
    ),
    of_column(
        "Cut is a text, and the column is ARRAY<INT>",
        "Declare a scalar type, without a form for objects.",
        type_=["ARRAY<INT>", "INT"],
        source=Cut("t", (0, 3)),
    ),
    of_table(
        "the group 'id' of Regex is there twice",
        "Give each group its own name.",
        format=[Regex(f"{REGEX.pattern}|(?P<id>x)"), REGEX],
    ),
    of_table(
        "FixedWidth needs a list with the places of its fields",
        'Name each as in Python: [("id", 0, 8), ("name", 8, 30)] are line[0:8] and line[8:30].',
        format=[FixedWidth([]), FIXED],
    ),
    of_table(
        "FixedWidth has the place ('id', 8, 8)",
        'Name each as in Python: [("id", 0, 8), ("name", 8, 30)] are line[0:8] and line[8:30].',
        format=[FixedWidth([("id", 8, 8), *FIXED.places[1:]]), FIXED],
    ),
    of_table(
        "field 'id' of FixedWidth is listed twice",
        "Give each field its own name.",
        format=[FixedWidth([*FIXED.places, ("id", 50, 60)]), FIXED],
    ),
    of_table(
        "column id reads the field id, which format Text does not have",
        "Name one of its fields: value.",
        format=[Text(), Csv(FIELDS)],
    ),
    of_table(
        "deletes: when: every value of format Csv is a text, unlike True",
        "Write the text that records contain, for example 'true'.",
        format=Csv([*FIELDS, "gone"]),
        deletes=[Deletes(when=FieldIs("gone", [True])), Deletes(when=FieldIs("gone", ["true"]))],
    ),
    of_table(
        "no text in latin-1 contains the delimiter '€'",
        "Correct one of the two.",
        format=[
            Csv(FIELDS, delimiter="€", encoding="latin-1"),
            Csv(FIELDS, delimiter="€"),
            Csv(FIELDS, delimiter=";", encoding="latin-1"),
        ],
    ),
]
