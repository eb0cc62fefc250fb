"""Where a column takes its value from, where that is not the value of a record."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RecordKey:
    """The key of the record, as text in UTF-8; no value where it has none."""

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
