"""The last record of each partition in few records, and whether a time went back. Spark finds the same of many."""

from typing import Any

import pytest

from lakehouse.decoding import staged
from lakehouse.ingest.order_times import _last_of_few


def place(position: int, time: int, partition: int = 0) -> dict[str, Any]:
    return {staged.PARTITION: partition, staged.POSITION: position, "time": time, staged.CHECKSUM: position}


@pytest.mark.invariant("4.9")
def test_a_time_that_goes_back_is_noticed_in_the_order_of_positions() -> None:
    (row,) = _last_of_few([place(2, 5), place(0, 4), place(1, 7)])
    assert (row["went_back"], row["least_time"], row["greatest_time"]) == (True, 4, 7)
    assert (row["position"], row["time"], row["checksum"]) == (2, 5, 2)


@pytest.mark.invariant("4.9")
def test_equal_and_growing_times_of_each_partition_do_not_go_back() -> None:
    rows = _last_of_few([place(0, 4), place(1, 4), place(2, 5), place(9, 1, partition=1)])
    assert [(row[staged.PARTITION], row["went_back"], row["position"]) for row in rows] == [
        (0, False, 2),
        (1, False, 9),
    ]
