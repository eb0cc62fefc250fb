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
]
