"""How far a merge is: the pace of its latest batches, and a bar that shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lakehouse.ingest.outcomes import Outcome


_RECENT = 3  # batches that count for the pace: the first batches of a process are slow


class Batch(NamedTuple):
    """What one batch did; its span of offsets is at least its records, because offsets may have holes."""

    span: int
    records: int
    seconds: float


@dataclass
class Pace:
    """How much of the backlog at the start is merged, in offsets or files, and how fast the latest batches were.

    Commits of base rows and of gaps do not count. ``total`` is 0 until the first batch is merged.
    """

    total: int = 0
    merged: int = 0
    recent_batches: list[Batch] = field(default_factory=list)
    noun: str = "offset"

    def add(self, outcome: "Outcome") -> None:
        """Count one more commit."""
        if outcome.plan is None:
            return
        self.total = self.total or outcome.lag_before
        from lakehouse.ledger.positions import source_words

        words = source_words(outcome.plan.source)
        span, self.noun = words.count(outcome.plan.span), words.position
        self.merged += span
        batch = Batch(span, outcome.entry.commit.read, outcome.seconds)
        self.recent_batches = [*self.recent_batches, batch][-_RECENT:]

    @property
    def time_left(self) -> timedelta:
        """How long the rest takes at the pace of the latest batches; to the second."""
        remaining, span = max(0, self.total - self.merged), sum(batch.span for batch in self.recent_batches)
        return timedelta(seconds=round(remaining * self._seconds / span)) if span else timedelta()

    def __str__(self) -> str:
        """The pace in words; empty before the first batch."""
        if not self.recent_batches:
            return ""
        rate = sum(batch.records for batch in self.recent_batches) / self._seconds if self._seconds else 0.0
        return f"{self.merged:,} of {self.total:,} {self.noun}s, {rate:,.0f} records a second, {self.time_left} left"

    @property
    def _seconds(self) -> float:
        return sum(batch.seconds for batch in self.recent_batches)


@contextmanager
def merge_progress() -> Iterator[Callable[["Outcome"], None]]:
    """A bar over all batches of a merge, in a terminal only; call the yielded function with each commit."""
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    from lakehouse.cli.output import progress_console
    from lakehouse.cli.phases import CURRENT_PHASE

    class PhaseColumn(ProgressColumn):
        def render(self, task: Task) -> Text:  # noqa: ARG002 - the phase belongs to the process
            return Text(str(CURRENT_PHASE))

    pace, console = Pace(), progress_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"), PhaseColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Merging", total=None, figures="")

        def show(outcome: "Outcome") -> None:
            pace.add(outcome)
            bar.update(task, total=pace.total or None, completed=pace.merged, figures=str(pace))

        yield show
