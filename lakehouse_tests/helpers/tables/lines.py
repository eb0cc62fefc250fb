"""A second kind of source for tests: numbered lines of numbered files. lakehouse does not read it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from lakehouse.decoding import staged
from lakehouse.decoding.arrow_types import RECORD_SCHEMA
from lakehouse.ledger.positions import Plan, SourceId, SourceState

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass
class Lines:
    """A folder with an id: a file is a partition, and a line has a position and its own sequence number."""

    identity: str
    files: dict[int, list[tuple[int | None, bytes]]] = field(default_factory=dict)
    deleted: dict[int, int] = field(default_factory=dict)

    def write(self, file: int, *lines: tuple[int | None, bytes]) -> None:
        """Append lines with their sequence numbers."""
        self.files.setdefault(file, []).extend(lines)

    def read_state(self) -> SourceState:
        ends = {file: len(lines) for file, lines in self.files.items()}
        earliest = {file: self.deleted.get(file, 0) for file in self.files}
        return SourceState("the folder", SourceId("lines", self.identity), earliest, ends)

    def read(self, plan: Plan) -> pa.Table:
        """Read the lines of a plan in the form of records of a topic."""
        return pa.Table.from_pylist([*self._records(plan)], RECORD_SCHEMA)

    def _records(self, plan: Plan) -> Iterator[dict[str, object]]:
        for part in plan.ranges:
            for position in range(part.start, part.end):
                sequence, value = self.files[part.partition][position]
                origin = dict(zip(staged.PLACE, (AT, part.partition, position, sequence), strict=True))
                yield {**origin, staged.KEY: None, staged.VALUE: value, staged.HEADERS: None}
