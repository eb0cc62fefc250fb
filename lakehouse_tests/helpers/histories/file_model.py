"""What a folder of files, its numbers and the tables that read it must be, without Spark."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

Record = tuple[int, int]
"""The id and the amount of a record; a negative amount is rejected."""


@dataclass(frozen=True)
class Content:
    """What one path has: when it was written, as a number that grows, and its records."""

    written: int
    records: tuple[Record, ...]


@dataclass
class FolderModel:
    """The folder, the files that have numbers, the number of the next file to merge, and what was merged.

    ``held_files`` are files that no run can read, in no other collection.
    """

    files: dict[str, Content] = field(default_factory=dict)
    held_files: dict[str, Content] = field(default_factory=dict)
    numbered: list[tuple[str, Content]] = field(default_factory=list)
    next_number: int = 0
    merged: list[Content] = field(default_factory=list)

    def register_state(self) -> None:
        """Number the new and changed files in the order of their times."""
        newest_contents = dict(self.numbered)
        new_files = [(path, content) for path, content in self.files.items() if newest_contents.get(path) != content]
        self.numbered += sorted(new_files, key=lambda item: (item[1].written, item[0]))

    def is_new(self, path: str) -> bool:
        """Whether there never was a file with this path that a run could read, and there is none now."""
        return not {path} & {*self.files, *self.held_files, *dict(self.numbered)}

    def merge(self, batches: int | None) -> bool:
        """Merge up to ``batches`` files, and return whether a removed file stops the run."""
        self.register_state()
        while batches is None or batches > 0:
            waiting_numbers = list(self._waiting_numbers())
            if not waiting_numbers:
                self.next_number = len(self.numbered) if batches is None else self.next_number
                return False
            if self._is_removed(waiting_numbers[0]):
                return True
            self.merged.append(self.numbered[waiting_numbers[0]][1])
            self.next_number = [*waiting_numbers[1:], len(self.numbered)][0]
            batches = None if batches is None else batches - 1
        return False

    def accept_gap(self) -> bool:
        """Pass over the removed files that are next; return whether there are any."""
        waiting_numbers = list(self._waiting_numbers())
        is_gap = bool(waiting_numbers) and self._is_removed(waiting_numbers[0])
        while waiting_numbers and self._is_removed(waiting_numbers[0]):
            waiting_numbers.pop(0)
        if is_gap:
            self.next_number = [*waiting_numbers, len(self.numbered)][0]
        return is_gap

    def _waiting_numbers(self) -> Iterator[int]:
        """Yield the numbers from the next one on, except those whose path has a later one."""
        newest_numbers = {path: number for number, (path, _) in enumerate(self.numbered)}
        yield from (number for number in sorted(newest_numbers.values()) if number >= self.next_number)

    def _is_removed(self, number: int) -> bool:
        return self.numbered[number][0] not in self.files

    @property
    def records(self) -> list[Record]:
        """The merged records, in the order in which they were merged."""
        return [record for content in self.merged for record in content.records]

    def rows(self, *, is_keyed: bool) -> Counter[Record]:
        """The rows of a table with the key ``id``, or of a log table."""
        valid_records = [record for record in self.records if record[1] >= 0]
        return Counter(dict(valid_records).items()) if is_keyed else Counter(valid_records)

    def rejected(self) -> Counter[int]:
        """The amounts of the rejected records."""
        return Counter(amount for _, amount in self.records if amount < 0)
