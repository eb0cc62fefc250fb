"""Where records stand, in whatever source they come from: ranges, progress, gaps and plans. Pure arithmetic.

A source has a kind and an identity of its own, partitions with a number, and positions that grow along each of them.
Positions are no counts: a source may have holes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lakehouse.errors import LedgerError

Positions = Mapping[int, int]
"""A position for each partition number."""


@dataclass(frozen=True)
class Words:
    """What people call a source of one kind, and a position in it."""

    source: str = "source"
    position: str = "position"


_WORDS = {"kafka": Words("topic", "offset")}


@dataclass(frozen=True, order=True)
class Range:
    """Positions of one partition from ``start`` (inclusive) to ``end`` (exclusive)."""

    __pydantic_config__ = {"extra": "forbid"}  # a field that is not known stops who reads a commit  # noqa: RUF012

    partition: int
    start: int
    end: int

    @property
    def span(self) -> int:
        """How many positions the range covers: at least as many as it holds records."""
        return self.end - self.start


@dataclass(frozen=True, order=True)
class SourceId:
    """Which source records come from: its kind, and an identity that no other source of that kind ever has.

    Positions in two sources have nothing to do with each other. A person's name of a source is no part of it: another
    one may get that name.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    kind: str
    identity: str

    def __post_init__(self) -> None:
        if not self.kind or not self.identity or ":" in self.kind:
            raise ValueError(f"{self.text!r} names no source: a kind without a colon, a colon, an identity")

    @property
    def text(self) -> str:
        """Both in one, as rows name it: kind, a colon, identity."""
        return f"{self.kind}:{self.identity}"

    @classmethod
    def parse(cls, text: str | None) -> "SourceId":
        """Read what ``text`` wrote; raise ``LedgerError`` where it names no source."""
        kind, _, identity = (text or "").partition(":")
        try:
            return cls(kind, identity)
        except ValueError as error:
            raise LedgerError(
                str(error),
                where="the source of a row's record",
                action="No lakehouse writes that: RESTORE the table that has the row to the version before it had.",
            ) from error


def words_of(source: SourceId | str | None) -> Words:
    """What people call a source, also as rows name it, and a position in it; the plain words where none is known."""
    kind = source.kind if isinstance(source, SourceId) else (source or "").partition(":")[0]
    return _WORDS.get(kind, Words())


@dataclass(frozen=True)
class SourceState:
    """One look at a source: which one it is and the positions it holds.

    ``stream`` is what a person calls it. ``earliest`` is the first position still there, ``end`` the next one that a
    record will get.
    """

    stream: str
    source: SourceId
    earliest: Positions
    end: Positions

    def differs_from(self, before: SourceId) -> str:
        """Say that another source was merged before."""
        return f"Another {words_of(before).source} was merged: it was {before.text} and is {self.source.text}"


@dataclass(frozen=True)
class Progress:
    """The next position to read of every partition, for one source.

    It names every partition that the source had when it was looked at; one that is not named was added since.
    """

    source: SourceId
    positions: Positions

    def next_position(self, partition: int) -> int:
        """Where the reading of a partition goes on: one that was added since is read from its very first record."""
        return self.positions.get(partition, 0)


@dataclass(frozen=True)
class Gap:
    """What a table has not merged and the source no longer has.

    ``facts`` say what is gone, ``ranges`` which positions: one range for every partition that lost some. Of
    a partition or a source that is no more, no end is known: the range is empty and stands where the loss begins.
    ``expired`` says that nothing is gone but what was deleted from the front of partitions, as retention does.
    """

    facts: tuple[str, ...]
    ranges: tuple[Range, ...]
    expired: bool = False


@dataclass(frozen=True)
class Plan:
    """Exactly what a batch reads: one range for every partition of the source, empty ones included.

    A plan with a ``gap`` goes on behind it: it is for a person who accepts the loss, or for a declaration that
    accepts what expired.
    """

    stream: str
    source: SourceId
    ranges: tuple[Range, ...]
    gap: Gap | None = None

    @property
    def span(self) -> int:
        """How many positions the plan covers."""
        return sum(part.span for part in self.ranges)

    @property
    def progress(self) -> Progress:
        """The progress of a table that has merged this plan."""
        return Progress(self.source, {part.partition: part.end for part in self.ranges})


@dataclass(frozen=True)
class Bounds:
    """How far one batch may go: at most ``max_records`` positions, never beyond ``until``."""

    max_records: int | None = None
    until: Positions = field(default_factory=dict)


def plan_batch(state: SourceState, progress: Progress | None, bounds: Bounds = Bounds()) -> Plan:
    """Decide what the next batch reads, from one look at the source and the table's progress.

    A table without progress starts at the earliest positions, and so do partitions that lost records: nothing
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
    return Plan(state.stream, state.source, ranges, find_gap(state, progress))


def _start(partition: int, state: SourceState, progress: Progress | None) -> int:
    earliest = state.earliest[partition]
    if progress is None or state.source != progress.source:
        return earliest
    known = progress.next_position(partition)
    return known if earliest <= known <= state.end[partition] else earliest


def _end(partition: int, start: int, state: SourceState, until: Positions) -> int:
    return max(start, min(state.end[partition], until.get(partition, state.end[partition])))


def share_out(lags: Positions, limit: int | None, turn: int = 0) -> dict[int, int]:
    """Cut a limit into a share for each partition: small lags whole, and large ones equally what is left.

    Every partition with lag gets a share. Where the limit is less than there are of them, those get one
    position each that follow the place ``turn`` in the circle of all partitions. The shares add up to the
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


def lag_of(state: SourceState, progress: Progress | None) -> dict[int, int]:
    """Positions between progress and the end, for each partition; never negative."""
    return {p: end - _start(p, state, progress) for p, end in state.end.items()}


def find_gap(state: SourceState, progress: Progress | None) -> Gap | None:
    """Find what is gone from the source before it was merged; ``None`` where the progress fits it.

    Of a partition that was added since the progress, that is whatever is gone from its front.
    """
    if progress is None:
        return None
    if state.source != progress.source:
        begun, word = sorted(progress.positions.items()), words_of(state.source).position
        left = ", ".join(f"partition {p} from {word} {position}" for p, position in begun)
        fact = f"{state.differs_from(progress.source)}; what was not merged of it is not here: {left}"
        return Gap((fact,), tuple(Range(p, position, position) for p, position in begun))
    known = sorted({*progress.positions, *state.end})
    lost = [found for p in known for found in _lost(p, progress.next_position(p), state)]
    expired = all(part.end == state.earliest.get(part.partition) for _, part in lost)
    return Gap(tuple(fact for fact, _ in lost), tuple(part for _, part in lost), expired) if lost else None


def find_expired(state: SourceState) -> Gap | None:
    """Find what was deleted from the front of every partition, merged or not; ``None`` where nothing was."""
    lost = tuple(Range(p, 0, earliest) for p, earliest in sorted(state.earliest.items()) if earliest)
    said = "were deleted, and the table no longer has what it had merged of them"
    facts = tuple(f"Partition {part.partition}: records from 0 to {part.end - 1} {said}" for part in lost)
    return Gap(facts, lost, expired=True) if lost else None


def _lost(partition: int, position: int, state: SourceState) -> Iterator[tuple[str, Range]]:
    """What one partition lost, at most one fact: deleted from the front, cut off at the end, or all of it."""
    if partition not in state.end:
        fact = f"Partition {partition} is gone, with its records from {words_of(state.source).position} {position} on"
        yield fact, Range(partition, position, position)
        return
    earliest, end = state.earliest[partition], state.end[partition]
    if position < earliest:
        fact = f"Partition {partition}: records from {position} to {earliest - 1} were deleted before they were merged"
        yield fact, Range(partition, position, earliest)
    elif position > end:
        fact = f"Partition {partition} ends at {end}, but the table has merged up to {position}"
        yield fact, Range(partition, end, position)
