"""How a table partitions its rows into folders: by a period of a time column, or by the values of a column.

The column need not be part of the key: if its value changes, the row moves to another partition and stays one row.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class _Period:
    """Partition by a period of a TIMESTAMP or DATE column, in UTC: a separate DATE column holds its first day."""

    column: str
    types: ClassVar[tuple[str, ...]] = ("TIMESTAMP", "DATE")

    @property
    def unit(self) -> str:
        """The name of the period in SQL, which is the lower-case name of the class."""
        return type(self).__name__.lower()

    @property
    def name(self) -> str:
        """Name of the partition column."""
        return f"{self.column.removesuffix('_at')}_{self.unit}"

    @property
    def expression(self) -> str:
        """The partition column in SQL."""
        return f"CAST(date_trunc('{self.unit.upper()}', `{self.column}`) AS DATE)"

    @property
    def doc(self) -> str:
        """What the partition column means."""
        return f"First day of the {self.unit}, UTC; partition column."


@dataclass(frozen=True)
class Day(_Period):
    """Partition by the day of a TIMESTAMP column, in UTC."""

    types: ClassVar[tuple[str, ...]] = ("TIMESTAMP",)

    @property
    def expression(self) -> str:
        """The day in SQL."""
        return f"CAST(`{self.column}` AS DATE)"

    @property
    def doc(self) -> str:
        """What the partition column means."""
        return "The day, UTC; partition column."


@dataclass(frozen=True)
class Hour(_Period):
    """Partition the files of an export by the hour of a TIMESTAMP column, in UTC; tables have no such partitions."""

    types: ClassVar[tuple[str, ...]] = ("TIMESTAMP",)


@dataclass(frozen=True)
class Month(_Period):
    """Partition by the month of a TIMESTAMP or DATE column, as the first day of it, in UTC."""


@dataclass(frozen=True)
class Year(_Period):
    """Partition by the year of a TIMESTAMP or DATE column, as the first day of it, in UTC."""


@dataclass(frozen=True)
class Value:
    """Partition by the values of a column with few distinct values: dates or integers.

    Strings are not supported: they may be too long for the name of a folder, and an empty one is read back as NULL.
    """

    column: str
    types: ClassVar[tuple[str, ...]] = ("DATE", "INT", "BIGINT")

    @property
    def name(self) -> str:
        """Name of the partition column: the declared column itself."""
        return self.column

    @property
    def expression(self) -> str:
        """The value in SQL."""
        return f"`{self.column}`"
