"""How the rows of a table are parted into folders: by what rows have in common, of the key or not.

Where it is not of the key, a row whose value changes moves, and stays one row.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class _Period:
    """Partition by a period of a TIMESTAMP or DATE column, in UTC: a DATE column of its own tells its first day."""

    column: str
    types: ClassVar[tuple[str, ...]] = ("TIMESTAMP", "DATE")

    @property
    def unit(self) -> str:
        """The period, as its class is called and SQL calls it."""
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
class Month(_Period):
    """Partition by the month of a TIMESTAMP or DATE column, as the first day of it, in UTC."""


@dataclass(frozen=True)
class Year(_Period):
    """Partition by the year of a TIMESTAMP or DATE column, as the first day of it, in UTC."""


@dataclass(frozen=True)
class Value:
    """Partition by the values of a column, of which there are few: of days, or of whole numbers.

    No text: as the name of a folder it may be too long, and an empty one is read back as NULL.
    """

    column: str
    types: ClassVar[tuple[str, ...]] = ("DATE", "INT", "BIGINT")

    @property
    def name(self) -> str:
        """Name of the partition column: that of the declared one."""
        return self.column

    @property
    def expression(self) -> str:
        """The value in SQL."""
        return f"`{self.column}`"
