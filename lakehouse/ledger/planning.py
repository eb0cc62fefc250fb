"""What a batch reads: the positions from the progress to an end, divided among the partitions. Pure arithmetic."""

from dataclasses import dataclass, field

from lakehouse.ledger.positions import Plan, Positions, Progress, Range, SourceState, find_gap, source_words


@dataclass(frozen=True)
class Bounds:
    """The limits of one batch: at most ``max_records`` positions, never beyond ``until``."""

    max_records: int | None = None
    until: Positions = field(default_factory=dict)


def plan_batch(state: SourceState, progress: Progress | None, bounds: Bounds = Bounds()) -> Plan:
    """Plan the next batch from the state of the source and the progress of the table.

    A table without progress starts as declared, else at the earliest positions. So do partitions that lost records: no
    other available record is skipped. A limit is divided so that all partitions with lag advance. If there are more of
    them than the limit, each advances within as many batches as all partitions need at ``max_records`` per batch. If
    there is nothing to read, the ``span`` of the plan is 0.
    """
    starts = {p: _start(p, state, progress) for p in state.end}
    ends = {p: _end(p, starts[p], state, bounds.until) for p in state.end}
    # a batch that is smaller than the lag increases the sum by its limit: the next turn begins where this one ends
    turn = sum(starts.values())
    shares = state.divide(starts, {p: ends[p] - starts[p] for p in starts}, bounds.max_records, turn)
    ranges = tuple(Range(p, starts[p], starts[p] + shares[p]) for p in sorted(starts))
    return Plan(state.stream, state.source, ranges, find_gap(state, progress))


def _start(partition: int, state: SourceState, progress: Progress | None) -> int:
    earliest = state.earliest[partition]
    if progress is None:
        return max(earliest, state.starts.get(partition, earliest))
    if state.source != progress.source:
        return earliest
    if partition in state.unchanged:
        return max(earliest, state.unchanged[partition])
    position = progress.next_position(partition)
    return position if earliest <= position <= state.end[partition] else earliest


def _end(partition: int, start: int, state: SourceState, until: Positions) -> int:
    return max(start, min(state.end[partition], until.get(partition, state.end[partition])))


def lag_of(state: SourceState, progress: Progress | None) -> dict[int, int]:
    """Return what is between progress and end for each partition, as the source counts it; never negative."""
    count = source_words(state.source).count
    return {p: count(end - _start(p, state, progress)) for p, end in state.end.items()}
