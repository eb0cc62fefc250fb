"""One error of a declaration, and the declarations of users who follow its advice."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse_tests.unit.declaration.ratings import TableFactory


@dataclass(frozen=True)
class Accepted:
    """An accepted declaration, and the row that it decodes from a record, apart from the id and the time."""

    make_table: TableFactory
    record: Mapping[str, Any]
    row: Mapping[str, Any]
    other_parts: Mapping[str, Any] = field(default_factory=dict)


def accept(make_table: TableFactory, record: Mapping[str, Any], **row: Any) -> Accepted:
    """A declaration that decodes these values from a record."""
    return Accepted(make_table, record, row)


class Example:
    """A refused declaration with its message and advice, then one declaration for each way to follow the advice."""

    def __init__(self, message: str, advice: str, refused_table: TableFactory, *ways: TableFactory | Accepted) -> None:
        self.message, self.advice, self.refused_table = message, advice, refused_table
        self.ways: Sequence[Accepted] = [way if isinstance(way, Accepted) else accept(way, {}) for way in ways]


def encode_rating(record: Mapping[str, Any]) -> bytes:
    """The value of a record of the table of ratings."""
    return json.dumps({"id": 1, "time": "2026-01-31 12:00:00"} | dict(record)).encode()
