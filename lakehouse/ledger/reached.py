"""How far a topic was ever read, also by commits that do not count: rows of it may be in the table."""

Reached = dict[str, dict[int, int]]
"""Where the offsets end that were read, by incarnation and partition."""


def furthest(*told: Reached) -> Reached:
    """The greatest of what is told for each incarnation and partition."""
    found: Reached = {}
    for incarnation, ends in (each for one in told for each in one.items()):
        known = found.setdefault(incarnation, {})
        known |= {partition: max(end, known.get(partition, end)) for partition, end in ends.items()}
    return found


def beyond(reached: Reached, progress: Reached) -> Reached:
    """What was read further than the progress tells."""
    further = {
        incarnation: {p: end for p, end in ends.items() if end > progress.get(incarnation, {}).get(p, -1)}
        for incarnation, ends in reached.items()
    }
    return {incarnation: ends for incarnation, ends in further.items() if ends}
