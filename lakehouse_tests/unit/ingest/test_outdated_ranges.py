"""Which positions were read by another declaration, and what is left of them once records were read again."""

import pytest

from lakehouse.ingest.correction import subtract_ranges
from lakehouse.ledger.positions import Range


@pytest.mark.parametrize(
    ("read_ranges", "left_ranges"),
    [
        ([], [(0, 0, 10), (1, 0, 5)]),
        ([(0, 0, 10)], [(1, 0, 5)]),
        ([(0, 0, 4)], [(0, 4, 10), (1, 0, 5)]),
        ([(0, 3, 6), (0, 7, 20)], [(0, 0, 3), (0, 6, 7), (1, 0, 5)]),
        ([(0, 7, 9), (0, 5, 8), (1, 0, 5)], [(0, 0, 5), (0, 9, 10)]),
        ([(0, 4, 4), (2, 0, 9)], [(0, 0, 10), (1, 0, 5)]),
    ],
)
def test_what_was_read_again_is_not_outdated_any_more(read_ranges: list[tuple[int, int, int]], left_ranges) -> None:
    ranges = [Range(0, 0, 10), Range(1, 0, 5)]
    left = subtract_ranges(ranges, [Range(*part) for part in read_ranges])
    parts = [(part.partition, part.start, part.end) for part in left]
    positions = {(p, position) for p, start, end in parts for position in range(start, end)}
    assert positions == {(p, position) for p, start, end in left_ranges for position in range(start, end)}
