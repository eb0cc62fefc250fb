"""What a topic with lost ends holds, what was merged of it, and up to where both are known to be the same."""

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime

from lakehouse_tests.helpers.histories.model_values import Record

Notes = dict[int, list["Note"]]


@dataclass(frozen=True)
class Note:
    """A record to send; no other one has its time and value."""

    broker_time: datetime
    value: bytes

    def rows(self, partition: int, offset: int) -> tuple[Record, ...]:  # noqa: ARG002 - nothing decodes it
        """Return no rows."""
        return ()


def _no_notes() -> Notes:
    return {0: [], 1: []}


@dataclass
class TailModel:
    """The records of each partition: in the topic, in its copies, merged, and merged after each commit that counts."""

    topic: Notes = field(default_factory=_no_notes)
    copies: list[Notes] = field(default_factory=list)
    merged: Notes = field(default_factory=_no_notes)
    commits: dict[int, list[list[Note]]] = field(default_factory=lambda: {0: [], 1: []})

    def take_copy(self) -> None:
        self.copies.append(deepcopy(self.topic))

    def restore_copy(self, number: int) -> None:
        self.topic = deepcopy(self.copies[number])

    @property
    def progress(self) -> dict[int, int]:
        return {partition: len(notes) for partition, notes in self.merged.items()}

    @property
    def has_unread(self) -> bool:
        return self.topic != self.merged

    def lost_partitions(self) -> list[int]:
        """Return the partitions that no longer begin with what was merged of them."""
        return [p for p, notes in self.merged.items() if self.topic[p][: len(notes)] != notes]

    def read(self, ends: Mapping[int, int]) -> None:
        """Merge the topic up to these ends."""
        self.merged = {partition: self.topic[partition][:end] for partition, end in ends.items()}
        self._commit()

    def accept(self, partitions: Collection[int]) -> None:
        """Continue where a commit ended that has read what the topic begins with; from its first record if it is short.

        A topic that ends before the progress has not grown again, and nothing is asked about its records. Commits that
        went further than the new progress no longer count.
        """
        for partition in partitions:
            topic, is_short = self.topic[partition], len(self.topic[partition]) < len(self.merged[partition])
            known_notes = [notes for notes in self.commits[partition] if topic[: len(notes)] == notes and not is_short]
            self.merged = {**self.merged, partition: max(known_notes, key=len, default=[])}
            end = len(self.merged[partition])
            self.commits[partition] = [notes for notes in self.commits[partition] if len(notes) <= end]
        self._commit()

    def _commit(self) -> None:
        for partition, notes in self.merged.items():
            self.commits[partition].append(notes)
