"""A second kind of source, for the tests: numbered lines of numbered files. No release reads it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from lakehouse.decoding import staged
from lakehouse.ingest.around_timeless import RECORD_SCHEMA
from lakehouse.ledger.positions import Plan, SourceId, SourceState

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass
class Lines:
    """A folder under an id of its own: a partition for each file, a position for each line, which has its own order."""

    identity: str
    files: dict[int, list[tuple[int | None, bytes]]] = field(default_factory=dict)
    deleted: dict[int, int] = field(default_factory=dict)

    def write(self, file: int, *lines: tuple[int | None, bytes]) -> None:
        """Add lines, each with its place in the source's own order."""
        self.files.setdefault(file, []).extend(lines)

    def look(self) -> SourceState:
        ends = {file: len(lines) for file, lines in self.files.items()}
        earliest = {file: self.deleted.get(file, 0) for file in self.files}
        return SourceState("the folder", SourceId("lines", self.identity), earliest, ends)

    def read(self, plan: Plan) -> pa.Table:
        """The lines of a plan, as records of a topic are read."""
        return pa.Table.from_pylist([*self._records(plan)], RECORD_SCHEMA)

    def _records(self, plan: Plan) -> Iterator[dict[str, object]]:
        for part in plan.ranges:
            for position in range(part.start, part.end):
                sequence, value = self.files[part.partition][position]
                place = dict(zip(staged.PLACE, (AT, part.partition, position, sequence), strict=True))
                yield {**place, staged.KEY: None, staged.VALUE: value, staged.HEADERS: None}
