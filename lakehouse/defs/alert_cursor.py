"""What the sensor of alerts remembers between its ticks, and which changes it has to send."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import dropwhile
from typing import Literal

from pydantic import BaseModel, ValidationError

from lakehouse.defs.completions import Completion, Subject

State = Literal["failed", "recovered"]


class AlertCursor(BaseModel):
    """What the sensor sent: the failures that it has dealt with, by subject, and the subjects that failed at last.

    ``newest_check_id`` is the newest evaluation of a check up to which all alerts were sent; -1 before the first. Those
    of ``planned_checks`` are excepted: an evaluation of them was planned then, and is recorded under its old id.
    """

    newest_check_id: int = -1
    planned_checks: set[str] = set()
    failing: set[str] = set()
    failure_ids: dict[str, list[int]] = {}

    def changes(self, subject: Subject) -> Iterator[tuple[State, Completion]]:
        """What to send about a subject. The caller records each change that it sent before it asks for the next."""
        old_ids = self.failure_ids.get(subject.name, [])
        failures = (completion for completion in subject.completions if completion.is_failure)
        failure = next((completion for completion in failures if completion.id not in old_ids), None)
        if failure and subject.name not in self.failing:
            yield "failed", failure
        if not subject.is_failing and subject.name in self.failing:
            yield "recovered", subject.completions[0]

    def record(self, subject: Subject, state: State) -> None:
        """Record that this change of a subject was sent."""
        (self.failing.add if state == "failed" else self.failing.discard)(subject.name)


def parse_cursor(text: str | None) -> AlertCursor | None:
    """Parse the cursor; ``None`` before the first tick, and if a person replaced it by other text."""
    with suppress(ValidationError):
        return AlertCursor.model_validate_json(text or "")
    return None


def first_cursor(subjects: Iterable[Subject]) -> AlertCursor:
    """The cursor before the first tick: failures that are over need no alert, those that are not over need one."""
    over = {subject.name: dropwhile(lambda c: c.is_failure, subject.completions) for subject in subjects}
    return AlertCursor(failure_ids={name: [c.id for c in rest if c.is_failure] for name, rest in over.items()})
