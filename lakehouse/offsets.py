"""Ranges, progress and plans: pure arithmetic on offsets, and the errors of loss.

Offsets are positions, not counts: compaction and transaction markers leave holes in a topic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse.errors import DataLossError

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


@dataclass(frozen=True)
class TopicState:
    """One look at the broker: identity of the topic and the offsets it holds.

    ``earliest`` is the first offset still there, ``end`` the last stable offset: the next one a
    committed record will get. ``producer_time`` says that producers, not the broker, date the records.
    """

    cluster_id: str
    topic: str
    topic_id: str
    earliest: Offsets
    end: Offsets
    producer_time: bool = False


@dataclass(frozen=True)
class Progress:
    """The next offset to read of every partition, for one incarnation of a topic."""

    cluster_id: str
    topic_id: str
    offsets: Offsets


@dataclass(frozen=True)
class Plan:
    """Exactly what a batch reads: one range for every partition of the topic, empty ones included."""

    cluster_id: str
    topic: str
    topic_id: str
    ranges: tuple[Range, ...]

    @property
    def span(self) -> int:
        """How many positions the plan covers."""
        return sum(part.span for part in self.ranges)

    @property
    def progress(self) -> Progress:
        """The progress of a table that has merged this plan."""
        return Progress(self.cluster_id, self.topic_id, {part.partition: part.end for part in self.ranges})


@dataclass(frozen=True)
class Bounds:
    """How far one batch may go: at most ``max_records`` positions, never beyond ``until``."""

    max_records: int | None = None
    until: Offsets = field(default_factory=dict)


def plan_batch(state: TopicState, progress: Progress | None, bounds: Bounds = Bounds()) -> Plan:
    """Decide what the next batch reads, from one look at the broker and the table's progress.

    Partitions without progress start at their earliest offset. The limit is shared out over the
    partitions by their lag, so that all of them advance. Nothing to read gives a plan with ``span`` 0.

    Raises ``DataLossError`` where the progress does not fit the topic.
    """
    if progress is not None:
        require_same_topic(state, progress)
        require_nothing_lost(state, progress)
    starts = {p: _start(p, state, progress) for p in state.end}
    ends = {p: _end(p, starts[p], state, bounds.until) for p in state.end}
    taken = share_out({p: ends[p] - starts[p] for p in starts}, bounds.max_records)
    ranges = tuple(Range(p, starts[p], starts[p] + taken[p]) for p in sorted(starts))
    return Plan(state.cluster_id, state.topic, state.topic_id, ranges)


def _start(partition: int, state: TopicState, progress: Progress | None) -> int:
    known = {} if progress is None else progress.offsets
    return known.get(partition, state.earliest[partition])


def _end(partition: int, start: int, state: TopicState, until: Offsets) -> int:
    return max(start, min(state.end[partition], until.get(partition, state.end[partition])))


def share_out(lags: Offsets, limit: int | None) -> dict[int, int]:
    """Cut a limit into a share for each partition, in proportion to its lag and never beyond it.

    The shares add up to the limit, or to the whole lag where that is less.
    """
    total = sum(lags.values())
    if limit is None or total <= limit:
        return dict(lags)
    shares = {p: lag * limit // total for p, lag in lags.items()}
    for partition in sorted(lags, key=lambda p: (shares[p] - lags[p], p)):
        if sum(shares.values()) == limit:
            break
        shares[partition] += 1
    return shares


def lag_of(state: TopicState, progress: Progress | None) -> dict[int, int]:
    """Offsets between progress and the last stable offset, for each partition; never negative."""
    return {p: max(0, end - _start(p, state, progress)) for p, end in state.end.items()}


def require_same_topic(state: TopicState, progress: Progress) -> None:
    """Raise ``DataLossError`` where the topic is not the one that was read so far."""
    if state.cluster_id != progress.cluster_id:
        fact = f"The broker belongs to cluster {state.cluster_id}, the table was read from {progress.cluster_id}"
        raise DataLossError(fact, where=f"topic {state.topic}", action=_advice(state))
    if state.topic_id != progress.topic_id:
        fact = "The topic was deleted and created again; records of the old one that were not merged are gone"
        where = f"topic {state.topic}, id {progress.topic_id} before, {state.topic_id} now"
        raise DataLossError(fact, where=where, action=_advice(state))


def require_nothing_lost(state: TopicState, progress: Progress) -> None:
    """Raise ``DataLossError`` where a partition no longer holds the records at the progress."""
    for partition, offset in sorted(progress.offsets.items()):
        where = f"topic {state.topic}, partition {partition}"
        if partition not in state.end:
            raise DataLossError("The partition is gone", where=where, action=_advice(state))
        if offset < state.earliest[partition]:
            fact = f"Records from {offset} to {state.earliest[partition] - 1} were deleted before they were merged"
            raise DataLossError(fact, where=where, action=_advice(state))
        if offset > state.end[partition]:
            fact = f"The table has merged up to {offset}, but the partition ends at {state.end[partition]}"
            raise DataLossError(fact, where=where, action=_advice(state))


def _advice(state: TopicState) -> str:
    return f"If the loss is known and accepted, go on with: lakehouse accept-gap {state.topic}"
