"""How far a source was ever read, also by commits that do not count: rows of it may be in the table."""

Reached = dict[str, dict[int, int]]
"""Where the positions end that were read, by source (as rows name it) and partition."""


def furthest(*told: Reached) -> Reached:
    """The greatest of what is told for each source and partition."""
    found: Reached = {}
    for source, ends in (each for one in told for each in one.items()):
        known = found.setdefault(source, {})
        known |= {partition: max(end, known.get(partition, end)) for partition, end in ends.items()}
    return found


def beyond(reached: Reached, progress: Reached) -> Reached:
    """What was read further than the progress tells."""
    further = {
        source: {p: end for p, end in ends.items() if end > progress.get(source, {}).get(p, -1)}
        for source, ends in reached.items()
    }
    return {source: ends for source, ends in further.items() if ends}
