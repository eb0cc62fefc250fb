"""Formats that a project adds."""

from dataclasses import dataclass

from lakehouse.decoding.formats import Format
from lakehouse_tests.helpers.barred_format import Barred
from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import with_columns


class Unwritten(Format):
    parser, writer = Barred.parser, Barred.writer
    names = ("id",)


@dataclass(frozen=True)
class Kindless(Barred):
    framed = needs_schemas = True


@dataclass(frozen=True)
class Kind(Kindless):
    schema_kind = "BARS"


EXAMPLES = [
    Example(
        "format Unwritten is no frozen dataclass",
        "Make it one: how it is written tells whether a table is declared otherwise than before.",
        with_columns(format=Unwritten()),
        with_columns(format=Barred(("id",))),
    ),
    Example(
        "format Kindless needs schemas, and has no kind of them, or no id before a value",
        "Set framed and schema_kind: an id tells which schema of that kind is asked for.",
        with_columns(format=Kindless(("id",))),
        with_columns(format=Kind(("id",))),
    ),
]
