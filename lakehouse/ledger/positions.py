"""Positions of records in a source of any kind: ranges, progress, gaps and plans. Pure arithmetic.

A source has a kind, an identity, and numbered partitions with increasing positions. Positions are not counts, because
a partition may have holes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakehouse.errors import LedgerError, printable, restore_advice

_MAX_SHOWN = 5  # partitions that a sentence names
Positions = Mapping[int, int]
"""A position for each partition number."""


def divide_limit(lags: Mapping[int, int], limit: int | None, turn: int = 0) -> dict[int, int]:
    """Divide a limit among the partitions: small lags in full, the rest equally among the large ones.

    Every partition with lag gets a share. If there are more of them than the limit, one position each goes to those
    that follow the index ``turn`` in the circle of all partitions. The shares add up to the limit, or to the total lag
    if that is less.
    """
    if limit is None:
        return dict(lags)
    partitions = sorted(lags)
    first = turn % max(1, len(partitions))
    served_partitions = [p for p in partitions[first:] + partitions[:first] if lags[p]][:limit]
    shares, remaining_limit = dict.fromkeys(lags, 0), limit
    for index, partition in enumerate(sorted(served_partitions, key=lambda p: lags[p])):
        shares[partition] = min(lags[partition], remaining_limit // (len(served_partitions) - index))
        remaining_limit -= shares[partition]
    return shares


@dataclass(frozen=True)
class SourceWords:
    """The words for a source of one kind and for what is counted in it; ``unit`` is how many positions that has."""

    source: str = "source"
    position: str = "position"
    unit: int = 1

    def count(self, span: int) -> int:
        """Return how many of what is counted a number of positions is; a part of one counts as one."""
        return -(-span // self.unit)


FILE_PLACES = 2**36
"""Positions of one file: its number times this, plus the place of a record in it, is a position."""
VERSION_PLACES = 2**36
"""Positions of one version of a table: its number times this, plus the place of the record in it, is a position."""
_WORDS = {
    "kafka": SourceWords("topic", "offset"),
    "files": SourceWords("folder", "file", FILE_PLACES),
    "table": SourceWords("table", "version", VERSION_PLACES),
    "generated": SourceWords("generator", "record"),
}


@dataclass(frozen=True, order=True)
class Range:
    """Positions of one partition from ``start`` (inclusive) to ``end`` (exclusive)."""

    __pydantic_config__ = {"extra": "forbid"}  # an unknown field stops the reader of a commit  # noqa: RUF012

    partition: int
    start: int
    end: int

    @property
    def span(self) -> int:
        """The number of positions in the range: at least the number of its records."""
        return self.end - self.start


@dataclass(frozen=True, order=True)
class SourceId:
    """The source of records: its kind, and an identity that is unique among the sources of that kind.

    Positions in different sources cannot be compared. The name is not part of the identity: another source may get it.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    kind: str
    identity: str

    def __post_init__(self) -> None:
        if not self.kind or not self.identity or ":" in self.kind:
            raise ValueError(f"{self.text!r} is not a source: expected KIND:IDENTITY, without a colon in KIND")

    @property
    def text(self) -> str:
        """The form that rows store: kind, a colon, identity."""
        return f"{self.kind}:{self.identity}"

    @classmethod
    def parse(cls, text: str | None) -> "SourceId":
        """Parse the form of ``text``; raise ``LedgerError`` if it is not a source."""
        kind, _, identity = (text or "").partition(":")
        try:
            return cls(kind, identity)
        except ValueError as error:
            raise LedgerError(
                str(error),
                where="the source of a row's record",
                action="lakehouse never writes such a value. Restore the version of the table before it."
                f" {restore_advice()}",
            ) from error


def source_words(source: SourceId | str | None) -> SourceWords:
    """Return the words for a source, also in the form of rows, and its positions; generic words if it is unknown."""
    kind = source.kind if isinstance(source, SourceId) else (source or "").partition(":")[0]
    return _WORDS.get(kind, SourceWords())


@dataclass(frozen=True)
class HeldPart:
    """What a source has and no batch reads yet: ``count`` of what is counted in it, and the reason.

    ``name`` says which, the same as long as it is held. ``passes`` is false if only a person can end it.
    """

    name: str
    reason: str
    count: int = 1
    passes: bool = True

    @property
    def text(self) -> str:
        """The name and the reason, in characters that can be printed."""
        return printable(f"{self.name} ({self.reason})")


@dataclass(frozen=True)
class SourceState:
    """The state of a source at one time: its identity and the positions that it holds.

    ``stream`` is its name. ``earliest`` has the first available position of each partition, ``end`` the position that
    the next record will get. ``is_compacted`` means that records disappear once there is a newer one with their key;
    ``None`` if that is unknown. ``starts`` has the position at which a new table begins each partition; it is empty if
    none is declared. ``producer_time`` means that those who write the records set their times. ``unchanged`` has the
    partitions that lost records at their end and gave the positions to others, and up to where each is known to hold
    what was merged. ``overtaken`` are the partitions from which deletes may have gone before they were merged, since
    they are only kept for a while. ``held_parts`` is what these positions leave out, and no batch reads yet.
    """

    stream: str
    source: SourceId
    earliest: Positions
    end: Positions
    is_compacted: bool | None = False
    starts: Positions = field(default_factory=dict)
    producer_time: bool = False
    unchanged: Positions = field(default_factory=dict)
    overtaken: tuple[int, ...] = ()
    held_parts: tuple[HeldPart, ...] = ()

    @property
    def ids(self) -> dict[str, str]:
        """What identifies the source, by name."""
        return {source_words(self.source).source: self.source.identity}

    def differs_from(self, before: SourceId) -> str:
        """Return a sentence that another source was merged before."""
        return f"Another {source_words(before).source} was merged: it was {before.text} and is {self.source.text}"

    def divide(self, starts: Positions, lags: Positions, limit: int | None, turn: int = 0) -> dict[int, int]:  # noqa: ARG002
        """Return how many of the ``lags``, which begin at ``starts``, one batch reads, as ``divide_limit`` does."""
        return divide_limit(lags, limit, turn)

    def describe_lost(self, part: Range) -> str:
        """Return the sentence that records were lost before they were merged, without its full stop."""
        count = f"{part.span:,} {source_words(self.source).position}{'s' if part.span > 1 else ''}"
        return f"{describe_deleted(part)} before they were merged: {count}"


@dataclass(frozen=True)
class Progress:
    """The next position to read of every partition, for one source.

    It contains every partition that the source had at that time; a partition that is missing was added since.
    """

    source: SourceId
    positions: Positions

    def next_position(self, partition: int) -> int:
        """Return the next position to read; a partition that was added since is read from its first record."""
        return self.positions.get(partition, 0)


@dataclass(frozen=True)
class Gap:
    """Records that a table has not merged and the source no longer holds.

    ``facts`` describe the loss, and ``ranges`` has one range for every partition that lost records. If a partition or
    source no longer exists, the end is unknown: the range is empty and begins at the loss. ``expired`` says that
    records were only deleted from the front of partitions, as retention does. ``hides_deletes`` says that only
    deletes may be lost, of rows that the table has.
    """

    facts: tuple[str, ...]
    ranges: tuple[Range, ...]
    expired: bool = False
    hides_deletes: bool = False

    @property
    def shown_facts(self) -> tuple[str, ...]:
        """The first of the facts, and how many more there are."""
        return first_of(self.facts, "partitions with a loss")


@dataclass(frozen=True)
class Plan:
    """The records that a batch reads: one range for every partition of the source, including empty ones.

    A plan with a ``gap`` continues after it. It may run only if a person accepts the loss, or the declaration accepts
    expired records. ``left_out`` are the positions that a new table leaves out on purpose, perhaps none. They are
    recorded before the plan runs; ``None`` if there is no start to record.
    """

    stream: str
    source: SourceId
    ranges: tuple[Range, ...]
    gap: Gap | None = None
    left_out: tuple[Range, ...] | None = None

    @property
    def span(self) -> int:
        """The number of positions in the plan."""
        return sum(part.span for part in self.ranges)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to commit: nothing to read, and neither a gap nor a start to record."""
        return not self.span and self.gap is None and self.left_out is None

    @property
    def progress(self) -> Progress:
        """The progress of a table after it has merged this plan."""
        return Progress(self.source, {part.partition: part.end for part in self.ranges})


def describe_held(held_parts: Sequence[HeldPart], noun: str) -> str:
    """Return a sentence that names the first of what is held, counted in ``noun``; empty if nothing is."""
    if not held_parts:
        return ""
    count = sum(part.count for part in held_parts)
    texts = ", ".join(first_of([part.text for part in held_parts], "of them"))
    return f"Not read: {count:,} {noun}{'s' if count > 1 else ''}: {texts}."


def first_of(texts: Sequence[str], noun: str) -> tuple[str, ...]:
    """Return the first texts, and how many more of what the noun names there are, if there are many."""
    first_texts = tuple(texts[:_MAX_SHOWN])
    return (*first_texts, f"{len(texts) - _MAX_SHOWN:,} more {noun}") if len(texts) > _MAX_SHOWN else first_texts


def find_gap(state: SourceState, progress: Progress | None) -> Gap | None:
    """Find records that left the source before they were merged; ``None`` if there are none.

    For a partition that was added since the progress, these are all records deleted from its front.
    """
    if progress is None:
        return None
    if state.source != progress.source:
        positions, word = sorted(progress.positions.items()), source_words(state.source).position
        places = [f"partition {p} from {word} {position}" for p, position in positions]
        unmerged = ", ".join(first_of(places, "partitions"))
        text = f"{state.differs_from(progress.source)}; unmerged records of the old one are not available: {unmerged}"
        return Gap((text,), tuple(Range(p, position, position) for p, position in positions))
    partitions = sorted({*progress.positions, *state.end})
    losses = [loss for p in partitions for loss in _losses(p, progress.next_position(p), state)]
    is_expired = all(part.span and part.end == state.earliest.get(part.partition) for _, part in losses)
    texts, ranges = tuple(text for text, _ in losses), tuple(part for _, part in losses)
    hides_deletes = {part.partition for part in ranges} <= {*state.overtaken} - {*state.unchanged}
    return Gap(texts, ranges, is_expired, hides_deletes) if losses else None


def find_expired(state: SourceState) -> Gap | None:
    """Find records that were deleted from the front of partitions, merged or not; ``None`` if there are none.

    Records before the declared start do not count.
    """
    ranges = (Range(p, state.starts.get(p, 0), earliest) for p, earliest in sorted(state.earliest.items()))
    deleted_ranges = tuple(part for part in ranges if part.span > 0)
    text = "and the table no longer has the rows that were merged from them"
    facts = tuple(f"{describe_deleted(part)}, {text}" for part in deleted_ranges)
    return Gap(facts, deleted_ranges, expired=True) if deleted_ranges else None


def describe_deleted(part: Range) -> str:
    """Return the sentence that the records of a range were deleted, without its full stop."""
    return f"Partition {part.partition}: records from {part.start} to {part.end - 1} were deleted"


def _losses(partition: int, position: int, state: SourceState) -> Iterator[tuple[str, Range]]:
    """Yield at most one loss of a partition: deleted from the front, lost at the end, or the whole partition."""
    if partition not in state.end:
        word = source_words(state.source).position
        text = f"Partition {partition} no longer exists, and its records from {word} {position} on are gone"
        yield text, Range(partition, position, position)
        return
    earliest, end = state.earliest[partition], state.end[partition]
    if position < earliest:
        lost_range = Range(partition, position, earliest)
        yield state.describe_lost(lost_range), lost_range
    elif position > end:
        text = f"Partition {partition} ends at {end}, but the table has merged up to {position}"
        yield text, Range(partition, end, position)
    elif partition in state.unchanged:
        word, start = source_words(state.source).position, max(earliest, state.unchanged[partition])
        text = (
            f"Partition {partition} has lost records at its end, up to {word} {position - 1}, and other records have"
            f" their {word}s. From {word} {start} on, it is not known which of them were merged"
        )
        yield text, Range(partition, start, position)
    elif partition in state.overtaken:
        word = source_words(state.source).position
        yield _overtaken_text(partition, f"{word} {position}"), Range(partition, position, position)


def _overtaken_text(partition: int, place: str) -> str:
    return (
        f"Partition {partition}: records from {place} on have waited for longer than this compacted topic keeps deletes"
        " (delete.retention.ms), so deletes among them may be gone, and their rows would stay"
    )
