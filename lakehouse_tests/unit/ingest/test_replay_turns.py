"""A replay of several ranges reads all of them."""

from lakehouse.ingest.replay import split_into_turns
from lakehouse.ledger.positions import Range


def test_two_ranges_of_a_partition_are_replayed_one_after_the_other() -> None:
    first, second, other_range = Range(0, 0, 500), Range(0, 600, 700), Range(1, 0, 10)
    assert list(split_into_turns([first, second, other_range])) == [{0: first, 1: other_range}, {0: second}]


def test_the_same_range_twice_is_replayed_twice() -> None:
    assert list(split_into_turns([Range(0, 0, 5), Range(0, 0, 5)])) == [{0: Range(0, 0, 5)}] * 2
    assert list(split_into_turns([])) == []
