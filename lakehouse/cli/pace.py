"""How far a merge is: figures of the batches that are done, and a bar that shows them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.batch.ingest import Outcome


@dataclass
class Pace:
    """What is merged of what there was at the start, in offsets, and how quickly.

    Base rows and gaps are commits too, but no part of it. ``total`` is 0 until the first batch is done.
    """

    total: int = 0
    merged: int = 0
    records: int = 0
    seconds: float = 0.0

    def add(self, outcome: "Outcome") -> None:
        """Take in one more commit."""
        if outcome.plan is None:
            return
        self.total = self.total or outcome.lag_before
        self.merged += outcome.plan.span
        self.records += outcome.entry.commit.read
        self.seconds += outcome.seconds

    @property
    def left(self) -> timedelta:
        """How long the rest takes, if it goes on as it went so far; to the second."""
        rest = max(0, self.total - self.merged)
        return timedelta(seconds=round(rest * self.seconds / self.merged)) if self.merged else timedelta()

    def __str__(self) -> str:
        """The figures as a person reads them; nothing before the first batch."""
        if not self.merged:
            return ""
        rate = self.records / self.seconds if self.seconds else 0.0
        return f"{self.merged:,} of {self.total:,} offsets, {rate:,.0f} records a second, {self.left} left"


@contextmanager
def merging() -> Iterator[Callable[["Outcome"], None]]:
    """A bar over all batches of a merge, in a terminal only; call what it gives with each commit."""
    from rich.progress import BarColumn, Progress, TextColumn

    from lakehouse.cli.output import progress

    pace, console = Pace(), progress()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Merging", total=None, figures="")

        def show(outcome: "Outcome") -> None:
            pace.add(outcome)
            bar.update(task, total=pace.total or None, completed=pace.merged, figures=str(pace))

        yield show
