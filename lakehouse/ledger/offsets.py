"""Ranges, progress, gaps and plans: pure arithmetic on offsets.

Offsets are positions, not counts: compaction and transaction markers leave holes in a topic.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Offsets = Mapping[int, int]
"""An offset for each partition number."""


@dataclass(frozen=True, order=True)
class Range:
    """Positions of one partition from ``start`` (inclusive) to ``end`` (exclusive)."""

    partition: int
    start: int
    end: int

    @property
    def span(self) -> int:
        """How many positions the range covers: at least as many as it holds records."""
        return self.end - self.start


@dataclass(frozen=True, order=True)
class Incarnation:
    """Which topic of that name: the cluster it is in, and the id it got when it was made.

    Offsets of two incarnations have nothing to do with each other.
    """

    cluster_id: str
    topic_id: str

    @property
    def text(self) -> str:
        """Both in one: cluster id, a slash, topic id."""
        return f"{self.cluster_id}/{self.topic_id}"

    @classmethod
    def parse(cls, text: str) -> "Incarnation":
        """Read what ``text`` wrote; an id of a topic holds no slash."""
        cluster_id, _, topic_id = text.rpartition("/")
        return cls(cluster_id, topic_id)


@dataclass(frozen=True)
class TopicState:
    """One look at the broker: which topic it is and the offsets it holds.

    ``earliest`` is the first offset still there, ``end`` the last stable offset: the next one a
    committed record will get. ``producer_time`` says that producers, not the broker, date the records.
    """

    topic: str
    incarnation: Incarnation
    earliest: Offsets
    end: Offsets
    producer_time: bool = False


@dataclass(frozen=True)
class Progress:
    """The next offset to read of every partition, for one incarnation of a topic.

    It names every partition that the topic had when it was looked at; one that is not named was added since.
    """

    incarnation: Incarnation
    offsets: Offsets

    def next_offset(self, partition: int) -> int:
        """Where the reading of a partition goes on: one that was added since is read from its very first record."""
        return self.offsets.get(partition, 0)


@dataclass(frozen=True)
class Gap:
    """What a table has not merged and the topic no longer has.

    ``facts`` say what is gone, ``ranges`` which offsets: one range for every partition that lost some. Of
    a partition or a topic that is no more, no end is known: the range is empty and stands where the loss begins.
    ``expired`` says that nothing is gone but what was deleted from the front of partitions, as retention does.
    """

    facts: tuple[str, ...]
    ranges: tuple[Range, ...]
    expired: bool = False


@dataclass(frozen=True)
class Plan:
    """Exactly what a batch reads: one range for every partition of the topic, empty ones included.

    A plan with a ``gap`` goes on behind it: it is for a person who accepts the loss, or for a declaration that
    accepts what expired.
    """

    topic: str
    incarnation: Incarnation
    ranges: tuple[Range, ...]
    gap: Gap | None = None

    @property
    def span(self) -> int:
        """How many positions the plan covers."""
        return sum(part.span for part in self.ranges)

    @property
    def progress(self) -> Progress:
        """The progress of a table that has merged this plan."""
        return Progress(self.incarnation, {part.partition: part.end for part in self.ranges})


@dataclass(frozen=True)
class Bounds:
    """How far one batch may go: at most ``max_records`` positions, never beyond ``until``."""

    max_records: int | None = None
    until: Offsets = field(default_factory=dict)


def plan_batch(state: TopicState, progress: Progress | None, bounds: Bounds = Bounds()) -> Plan:
    """Decide what the next batch reads, from one look at the broker and the table's progress.

    A table without progress starts at the earliest offsets, and so do partitions that lost records: nothing
    that is still there is stepped over. A limit is shared out so that all partitions with lag advance; where
    there are more of them, each does within as many batches as all partitions need at ``max_records`` a batch.
    Nothing to read gives a plan with ``span`` 0.
    """
    starts = {p: _start(p, state, progress) for p in state.end}
    ends = {p: _end(p, starts[p], state, bounds.until) for p in state.end}
    # a batch below the whole lag moves the sum on by its limit: the next turn begins where this one ends
    turn = sum(starts.values())
    taken = share_out({p: ends[p] - starts[p] for p in starts}, bounds.max_records, turn)
    ranges = tuple(Range(p, starts[p], starts[p] + taken[p]) for p in sorted(starts))
    return Plan(state.topic, state.incarnation, ranges, find_gap(state, progress))


def _start(partition: int, state: TopicState, progress: Progress | None) -> int:
    earliest = state.earliest[partition]
    if progress is None or state.incarnation != progress.incarnation:
        return earliest
    known = progress.next_offset(partition)
    return known if earliest <= known <= state.end[partition] else earliest


def _end(partition: int, start: int, state: TopicState, until: Offsets) -> int:
    return max(start, min(state.end[partition], until.get(partition, state.end[partition])))


def share_out(lags: Offsets, limit: int | None, turn: int = 0) -> dict[int, int]:
    """Cut a limit into a share for each partition: small lags whole, and large ones equally what is left.

    Every partition with lag gets a share. Where the limit is less than there are of them, those get one
    offset each that follow the place ``turn`` in the circle of all partitions. The shares add up to the
    limit, or to the whole lag where that is less.
    """
    if limit is None:
        return dict(lags)
    partitions = sorted(lags)
    place = turn % max(1, len(partitions))
    served = [p for p in partitions[place:] + partitions[:place] if lags[p]][:limit]
    shares, left = dict.fromkeys(lags, 0), limit
    for behind, partition in enumerate(sorted(served, key=lambda p: lags[p])):
        shares[partition] = min(lags[partition], left // (len(served) - behind))
        left -= shares[partition]
    return shares


def lag_of(state: TopicState, progress: Progress | None) -> dict[int, int]:
    """Offsets between progress and the last stable offset, for each partition; never negative."""
    return {p: end - _start(p, state, progress) for p, end in state.end.items()}


def find_gap(state: TopicState, progress: Progress | None) -> Gap | None:
    """Find what is gone from the topic before it was merged; ``None`` where the progress fits it.

    Of a partition that was added since the progress, that is whatever is gone from its front.
    """
    if progress is None:
        return None
    if state.incarnation != progress.incarnation:
        left = ", ".join(f"partition {p} from offset {offset}" for p, offset in sorted(progress.offsets.items()))
        fact = f"{_who_it_was(state, progress)}; what was not merged of it is not here: {left}"
        return Gap((fact,), tuple(Range(p, offset, offset) for p, offset in sorted(progress.offsets.items())))
    known = sorted({*progress.offsets, *state.end})
    lost = [found for p in known for found in _lost(p, progress.next_offset(p), state)]
    expired = all(part.end == state.earliest.get(part.partition) for _, part in lost)
    return Gap(tuple(fact for fact, _ in lost), tuple(part for _, part in lost), expired) if lost else None


def find_expired(state: TopicState) -> Gap | None:
    """Find what was deleted from the front of every partition, merged or not; ``None`` where nothing was."""
    lost = tuple(Range(p, 0, earliest) for p, earliest in sorted(state.earliest.items()) if earliest)
    said = "were deleted, and the table no longer has what it had merged of them"
    facts = tuple(f"Partition {part.partition}: records from 0 to {part.end - 1} {said}" for part in lost)
    return Gap(facts, lost, expired=True) if lost else None


def _who_it_was(state: TopicState, progress: Progress) -> str:
    now, before = state.incarnation, progress.incarnation
    if now.cluster_id != before.cluster_id:
        return f"The broker belongs to cluster {now.cluster_id}, the table was read from {before.cluster_id}"
    ids = f"its id was {before.topic_id} and is {now.topic_id}"
    return f"Another topic was merged: this one was deleted and created again, or another was declared; {ids}"


def _lost(partition: int, offset: int, state: TopicState) -> Iterator[tuple[str, Range]]:
    """What one partition lost, at most one fact: deleted from the front, cut off at the end, or all of it."""
    if partition not in state.end:
        fact = f"Partition {partition} is gone, with its records from offset {offset} on"
        yield fact, Range(partition, offset, offset)
        return
    earliest, end = state.earliest[partition], state.end[partition]
    if offset < earliest:
        fact = f"Partition {partition}: records from {offset} to {earliest - 1} were deleted before they were merged"
        yield fact, Range(partition, offset, earliest)
    elif offset > end:
        fact = f"Partition {partition} ends at {end}, but the table has merged up to {offset}"
        yield fact, Range(partition, end, offset)
