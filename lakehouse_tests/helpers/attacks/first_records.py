"""A stream of which some records are merged, before an attack on the others."""

from lakehouse_tests.helpers.attacks.deleting_streams import DeletingStream
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

FIRST_ENDS = {0: 4, 1: 2, 2: 0}  # the ends of the first batch: it merges nothing of the last partition


def merge_first_records(stream: DeletingStream) -> DeletingStream:
    """Send four hours into each of three partitions, and merge some of the first two."""
    for partition in range(3):
        stream.send(*lines(partition * 4, 4), partition=partition)
    stream.merge(until=FIRST_ENDS)
    return stream


def lines(first: int, count: int) -> list[bytes]:
    return [record(time=hour(number)) for number in range(first, first + count)]


def hours(*numbers: int) -> set[str]:
    return {hour(number) for number in numbers}


def assert_holds(stream: Stream, expected: set[str]) -> None:
    assert set(stream.temperatures()) == expected
    stream.assert_accounted()
