"""One error of a declaration, and what a person makes of the declaration who does what it says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse_tests.unit.declaration.ratings import Made


@dataclass(frozen=True)
class Read:
    """A declaration, and what it makes of a record: of what stands in it beside the id and the time."""

    made: Made
    record: Mapping[str, Any]
    row: Mapping[str, Any]
    beside: Mapping[str, Any] = field(default_factory=dict)


def read(made: Made, record: Mapping[str, Any], **row: Any) -> Read:
    """A declaration that makes these values of a record."""
    return Read(made, record, row)


class Example:
    """A declaration that is refused, with the fact and the advice; then one for each way to follow the advice."""

    def __init__(self, fact: str, advice: str, refused: Made, *followed: Made | Read) -> None:
        self.fact, self.advice, self.refused = fact, advice, refused
        self.followed: Sequence[Read] = [each if isinstance(each, Read) else read(each, {}) for each in followed]


def bytes_of(record: Mapping[str, Any]) -> bytes:
    """The value of a record of the table of ratings."""
    return json.dumps({"id": 1, "time": "2026-01-31 12:00:00"} | dict(record)).encode()
