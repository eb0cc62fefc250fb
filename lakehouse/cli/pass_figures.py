"""How many rows of a table a pass of a comparison has read, as text."""

from time import monotonic
from typing import TYPE_CHECKING

from lakehouse.cli.output import count_text

if TYPE_CHECKING:
    from lakehouse.operations.comparison_passes import Progress

_SECONDS_PER_TEXT = 1.0


class PassFigures:
    """The newest progress; its text changes at most once a second, however often it is asked for."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._text, self._next_change = "", 0.0

    def show(self, progress: "Progress") -> None:
        """Take over a progress."""
        self._progress = progress

    def __str__(self) -> str:
        """The progress of at most a second ago; empty before the first."""
        if self._progress and monotonic() >= self._next_change:
            self._text, self._next_change = progress_text(self._progress), monotonic() + _SECONDS_PER_TEXT
        return self._text


def progress_text(progress: "Progress") -> str:
    """The rows of an estimate, and the pass of how many."""
    expected_text = "" if progress.expected_rows is None else f"{progress.rows:,} of about "
    rows = count_text(progress.rows if progress.expected_rows is None else progress.expected_rows, "row")
    return f"{expected_text}{rows} of {progress.table}, pass {progress.number} of at most {progress.max_number}"
