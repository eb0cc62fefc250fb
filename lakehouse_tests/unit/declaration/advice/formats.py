"""Formats that a project adds."""

from dataclasses import dataclass

from lakehouse.declaration import Column, Compressed, Csv, FieldIs, Json, Logfmt, Text
from lakehouse.decoding.formats import Format
from lakehouse_tests.helpers.barred_format import Barred
from lakehouse_tests.unit.declaration.advice.example import Example, accept
from lakehouse_tests.unit.declaration.ratings import TAGS, with_columns


class Unwritten(Format):
    parser, writer = Barred.parser, Barred.writer
    names = ("id",)


@dataclass(frozen=True)
class Kindless(Barred):
    framed = needs_schemas = True


@dataclass(frozen=True)
class Kind(Kindless):
    schema_kind = "BARS"


FIELDS = ["id", "time", "stars"]
EXAMPLES = [
    Example(
        "format Unwritten is not a frozen dataclass",
        "Make it a frozen dataclass: its repr shows whether the declaration of a table has changed.",
        with_columns(format=Unwritten()),
        with_columns(format=Barred(("id",))),
    ),
    Example(
        "format Kindless needs schemas, but it is not framed or has no schema_kind",
        "Set framed and schema_kind: the id in front of a value selects a schema of that kind.",
        with_columns(format=Kindless(("id",))),
        with_columns(format=Kind(("id",))),
    ),
    Example(
        "unknown encoding 'latin-99'",
        "Write utf-8, or a name that Python has, such as latin-1, cp1252 or iso8859-15.",
        with_columns(format=Json(encoding="latin-99")),
        accept(with_columns(format=Json(encoding="utf-8")), {}),
        with_columns(format=Csv(FIELDS, encoding="latin-1")),
    ),
    Example(
        "encoding 'utf-16' does not have one byte for each character",
        "Declare utf-8 or an 8-bit encoding such as latin-1, cp1252 or iso8859-15. Have other records sent in UTF-8.",
        with_columns(format=Compressed(Logfmt(encoding="utf-16"), "gzip")),
        with_columns(format=Compressed(Logfmt(encoding="cp1252"), "gzip")),
    ),
    Example(
        "Csv needs the names of its columns",
        'Name each field of a row, for example columns=["id", "price"].',
        with_columns(format=Csv([])),
        with_columns(format=Csv(FIELDS)),
    ),
    Example(
        "column 'id' of Csv is listed twice",
        "Give each field of a row its own name.",
        with_columns(format=Csv([*FIELDS, "id"])),
        with_columns(format=Csv([*FIELDS, "former_id"])),
    ),
    Example(
        "delimiter '\\n' of Csv is not one character other than a quote or a line break",
        'Write one character, for example "," or "\\t".',
        with_columns(format=Csv(FIELDS, delimiter="\n")),
        with_columns(format=Csv(FIELDS, delimiter="\t")),
    ),
    Example(
        "format Compressed contains another Compressed",
        "Name the format of the decompressed values.",
        with_columns(format=Compressed(Compressed(Json(), "gzip"), "zstd")),
        with_columns(format=Compressed(Json(), "zstd")),
    ),
    Example(
        "column tags: type ARRAY<STRING> is not allowed in format Logfmt",
        "Every value of a record is a text. Declare STRING.",
        with_columns(TAGS, format=Logfmt()),
        with_columns(Column("tags", "STRING", "Words."), format=Logfmt()),
    ),
    Example(
        "column town reads the path home.town, but values of format Csv contain no objects",
        "Name one field.",
        with_columns(Column("town", "STRING", "Where.", source=("home", "town")), format=Csv([*FIELDS, "town"])),
        with_columns(Column("town", "STRING", "Where."), format=Csv([*FIELDS, "town"])),
    ),
    Example(
        "column town reads the field twon, which format Csv does not have",
        "Did you mean town? Name one of its fields: id, time, stars, town.",
        with_columns(Column("town", "STRING", "Where.", source="twon"), format=Csv([*FIELDS, "town"])),
        with_columns(Column("town", "STRING", "Where."), format=Csv([*FIELDS, "town"])),
    ),
    Example(
        "column id reads the field id, which format Text does not have",
        "Name one of its fields: value.",
        with_columns(format=Text()),
        with_columns(format=Csv(FIELDS)),
    ),
    Example(
        "apply_as_deletes: every value of format Csv is a text, unlike True",
        "Write the text that records contain, for example 'true'.",
        with_columns(format=Csv([*FIELDS, "gone"]), apply_as_deletes=FieldIs("gone", [True])),
        with_columns(format=Csv([*FIELDS, "gone"]), apply_as_deletes=FieldIs("gone", ["true"])),
    ),
]
