"""How far a source was ever read, also by undone commits: rows of these positions may be in the table."""

ReachedEnds = dict[str, dict[int, int]]
"""The end of the positions that were read, by source (as rows name it) and partition."""


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
