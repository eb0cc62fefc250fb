"""The values that the metadata of a commit is made of, and how far a source was ever read."""

from collections.abc import Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from lakehouse.ledger.positions import Range

ReachedEnds = dict[str, dict[int, int]]
"""The end of the positions that were read, by source (as rows name it) and partition."""


class Frozen(BaseModel):
    """An immutable value that is written as JSON; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def with_fields(self, **fields: Any) -> Self:
        """Return a copy with other values of some fields; ``ValidationError`` if a value is invalid."""
        return type(self)(**{**dict(self), **fields})


class Consumed(Frozen):
    """A version of a table that a commit has consumed.

    ``commit`` is the identity of the commit that made it, because a table that is restored from a backup reuses version
    numbers; ``None`` if the log no longer held the commit.
    """

    table_id: str
    version: int
    commit: str | None = None


class Totals(Frozen):
    """Sums over the batches of a table; replays and base rows are not included."""

    batches: int = 0
    read: int = 0
    empty: int = 0
    rows_read: int = 0
    filtered: int = 0
    erased: int = 0
    rejected: int = 0
    superseded: int = 0
    rounded: int = 0
    equal_versions: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    deletes_without_row: int = 0
    stale: int = 0
    times_back: int = 0


class LastRecord(Frozen):
    """The last record of a partition of a topic that was read, and what its successors are compared with.

    ``position``, ``time`` (in microseconds since 1970, UTC) and ``checksum`` (CRC-32 of the value, or of the key of a
    record without one) identify it: if the topic has another record there, it lost records and gave their positions
    again. They are ``None`` if they are unknown. ``greatest_time`` is the greatest time of a record up to it: later
    records are not ordered before it. ``caught_up`` is when the partition was last seen to end at the progress, or a
    person accepted what was lost since.
    """

    position: int | None = None
    time: int | None = None
    checksum: int | None = None
    greatest_time: int | None = None
    caught_up: int | None = None


LastRecords = dict[int, LastRecord]
"""The last record that was read of each partition."""


def standing_records(history: Sequence[LastRecord | None]) -> list[LastRecord]:
    """Return the last records of a partition in commits, the newest commit first, in the order of their positions.

    If a later commit continued before one, because a person accepted an earlier loss, that one no longer counts.
    """
    records: dict[int, LastRecord] = {}
    for last in history:
        if last is None or last.position is None:
            break  # the partition was read from its beginning again
        if last.position < min(records, default=last.position + 1):
            records[last.position] = last
    return [*records.values()][::-1]


class OtherSource(Frozen):
    """What a commit carries on of a source that it does not read: its name, its progress, and what was left out.

    ``progress`` is ``None`` if another source has its name now, as after a topic was deleted and created again.
    """

    stream: str
    progress: dict[int, int] | None = None
    left_out: tuple[Range, ...] = ()
    last_records: LastRecords = Field(default_factory=dict)


class RecordOrder(Frozen):
    """The order of a record, as rows store it, with the value of its version column as text, and the column's name.

    ``time`` is the one that orders it, in microseconds since 1970, UTC. A missing field is ``None``, which is smallest.
    """

    version: str | None = None
    version_column: str | None = None
    source: str | None = None
    partition: int | None = None
    position: int | None = None
    sequence: int | None = None
    time: int | None = None


def merge_reached(*maps: ReachedEnds) -> ReachedEnds:
    """Return the greatest end for each source and partition."""
    greatest: ReachedEnds = {}
    for source, ends in (item for reached in maps for item in reached.items()):
        known_ends = greatest.setdefault(source, {})
        known_ends |= {partition: max(end, known_ends.get(partition, end)) for partition, end in ends.items()}
    return greatest


def reached_beyond(reached: ReachedEnds, progress: ReachedEnds) -> ReachedEnds:
    """Return the ends that lie beyond the progress."""
    ends_beyond = {
        source: {p: end for p, end in ends.items() if end > progress.get(source, {}).get(p, -1)}
        for source, ends in reached.items()
    }
    return {source: ends for source, ends in ends_beyond.items() if ends}
