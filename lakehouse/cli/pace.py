"""How far a merge is: figures of the batches that are done, and a bar that shows them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lakehouse.ingest.batches import Outcome


_RECENT = 3  # batches whose pace counts: the first of a process are slow


class Batch(NamedTuple):
    """What one batch did; its span is no less than records, for there are holes."""

    span: int
    records: int
    seconds: float


@dataclass
class Pace:
    """What is merged of what there was at the start, in offsets, and how quickly the last batches went.

    Base rows and gaps are commits too, but no part of it. ``total`` is 0 until the first batch is done.
    """

    total: int = 0
    merged: int = 0
    recent: list[Batch] = field(default_factory=list)

    def add(self, outcome: "Outcome") -> None:
        """Take in one more commit."""
        if outcome.plan is None:
            return
        self.total = self.total or outcome.lag_before
        self.merged += outcome.plan.span
        done = Batch(outcome.plan.span, outcome.entry.commit.read, outcome.seconds)
        self.recent = [*self.recent, done][-_RECENT:]

    @property
    def left(self) -> timedelta:
        """How long the rest takes, if it goes on as the last batches went; to the second."""
        rest, span = max(0, self.total - self.merged), sum(batch.span for batch in self.recent)
        return timedelta(seconds=round(rest * self._seconds / span)) if span else timedelta()

    def __str__(self) -> str:
        """The figures as a person reads them; nothing before the first batch."""
        if not self.recent:
            return ""
        rate = sum(batch.records for batch in self.recent) / self._seconds if self._seconds else 0.0
        return f"{self.merged:,} of {self.total:,} offsets, {rate:,.0f} records a second, {self.left} left"

    @property
    def _seconds(self) -> float:
        return sum(batch.seconds for batch in self.recent)


@contextmanager
def merging() -> Iterator[Callable[["Outcome"], None]]:
    """A bar over all batches of a merge, in a terminal only; call what it gives with each commit."""
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    from lakehouse.cli.output import progress
    from lakehouse.cli.phases import NOW

    class Phase(ProgressColumn):
        def render(self, task: Task) -> Text:  # noqa: ARG002 - the phase is that of the process
            return Text(str(NOW))

    pace, console = Pace(), progress()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"), Phase())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Merging", total=None, figures="")

        def show(outcome: "Outcome") -> None:
            pace.add(outcome)
            bar.update(task, total=pace.total or None, completed=pace.merged, figures=str(pace))

        yield show
