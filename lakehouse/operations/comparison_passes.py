"""How far a comparison is. Each of its passes reads both tables."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

_ROWS_PER_REPORT = 10_000
Row = TypeVar("Row")


class Progress(NamedTuple):
    """The rows of one table that a pass has read so far.

    ``expected_rows`` is an estimate, ``None`` if there is none. ``number`` is the number of the pass, from 1, and
    ``max_number`` how many passes of its kind there are at most.
    """

    table: str
    rows: int
    expected_rows: int | None
    number: int
    max_number: int


Report = Callable[[Progress], None]


def report_nothing(_: Progress) -> None:
    """Ignore how far a comparison is."""


class Pass(NamedTuple):
    """One pass over both tables, and what it calls with its progress."""

    number: int
    max_number: int
    report: Report

    def follow(self, rows: Iterable[Row], table: str, expected_rows: int | None) -> Iterator[Row]:
        """Yield the rows of a table as they are read; report their number at the start, every 10,000 and at the end."""
        number = 0
        self._report(table, number, expected_rows)
        for number, row in enumerate(rows, 1):
            yield row
            if number % _ROWS_PER_REPORT == 0:
                self._report(table, number, expected_rows)
        self._report(table, number, expected_rows)

    def _report(self, table: str, rows: int, expected_rows: int | None) -> None:
        self.report(Progress(table, rows, expected_rows, self.number, self.max_number))
