"""Where a column takes its value from, where that is not the value of a record."""

from dataclasses import dataclass
from typing import Literal

Written = Literal["text", "any_text", "big_endian"]


@dataclass(frozen=True)
class RecordKey:
    """The key of the record; no value where it has none.

    ``written`` is how: as ``text`` in UTF-8, where a control character in a STRING rejects the record, since bytes that
    are no text often are UTF-8; as ``any_text``, with control characters; or ``big_endian``, as the four bytes of an
    INT or the eight of a BIGINT, which is how Kafka's serializers write whole numbers.
    """

    written: Written = "text"

    def __repr__(self) -> str:
        """As it is declared."""
        return f"RecordKey({'' if self.written == 'text' else repr(self.written)})"

    @property
    def part(self) -> str:
        """Which part of a record it is."""
        return KEY

    @property
    def called(self) -> str:
        """How a person is told of it."""
        return "key of the record"


@dataclass(frozen=True)
class RecordHeader:
    """The newest header of a name, as text in UTF-8; no value where the record has none of that name."""

    name: str

    @property
    def part(self) -> str:
        """Which part of a record it is."""
        return f"{HEADER}{self.name}"

    @property
    def called(self) -> str:
        """How a person is told of it."""
        return f"header {self.name}"


@dataclass(frozen=True)
class BrokerTime:
    """When the broker got the record, as it dates it: a TIMESTAMP."""

    @property
    def part(self) -> str:
        """Which part of a record it is."""
        return TIME

    @property
    def called(self) -> str:
        """How a person is told of it."""
        return "broker time"


VALUE, KEY, TIME, HEADER = "value", "key", "time", "header "
