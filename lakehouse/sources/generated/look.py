"""Which generated records exist at a time. Pure arithmetic.

The start is a part of the identity, which every commit repeats. So the clock decides only where the end is, and an end
before the progress counts as the progress: a clock that goes back takes nothing away.
"""

from lakehouse.declaration.generated import Generated
from lakehouse.ledger.positions import Positions, Progress, SourceId, SourceState

KIND = "generated"
_NEW = "new"  # in place of the start, before the table exists
_MAX_COUNT = 2**60  # far below the greatest position, for a clock at the end of time


def source_id(generated: Generated, start: int | None) -> SourceId:
    """Return the identity of records that begin at ``start``, in microseconds since 1970; ``None`` if that is open."""
    return SourceId(KIND, f"{generated.digest}@{_NEW if start is None else start}")


def start_of(source: SourceId, generated: Generated) -> int | None:
    """Return the start of the records of an identity; ``None`` if it is open, or if they are of another generator."""
    digest, _, start = source.identity.partition("@")
    return int(start) if (source.kind, digest) == (KIND, generated.digest) and start != _NEW else None


def count_at(generated: Generated, start: int, now: int) -> int:
    """Return how many records exist at a time; both times are in microseconds since 1970."""
    count = min(max(now - start, 0) * generated.rate // 1_000_000, _MAX_COUNT)
    return count if generated.count is None else min(count, generated.count)


def ends_of(count: int, partitions: int) -> dict[int, int]:
    """Return the end of each partition, if records are given to them in turn."""
    return {partition: (count - partition + partitions - 1) // partitions for partition in range(partitions)}


def state_of(generated: Generated, start: int | None, now: int, progress: Progress | None) -> SourceState:
    """Return the state of the records that begin at ``start``; never with an end before the progress in them."""
    source = source_id(generated, start)
    merged: Positions = progress.positions if progress and progress.source == source else {}
    ends = ends_of(0 if start is None else count_at(generated, start, now), generated.partitions)
    ends = {partition: max(end, merged.get(partition, 0)) for partition, end in ends.items()}
    return SourceState(generated.stream, source, dict.fromkeys(ends, 0), ends)
