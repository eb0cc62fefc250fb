"""How a limit is divided among partitions. Pure arithmetic."""

from collections.abc import Mapping


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
