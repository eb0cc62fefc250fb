"""A plan is split around records whose time is out of range: nothing is read twice, and nothing is left out."""

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import BrokerError
from lakehouse.kafka import Record, read
from lakehouse.kafka.read import MAX_MILLISECONDS, MIN_MILLISECONDS, _Cut, _scan, is_exact_in_spark, is_timeless
from lakehouse.ledger.positions import Range

OUT_OF_RANGE = MAX_MILLISECONDS + 1


def record(offset: int, milliseconds: int, value: bytes = b"{}") -> Record:
    return Record(0, offset, milliseconds, None, value)


def cut_of(times: list[int | None], room: int = read.ROOM) -> _Cut:
    """Return the cut of a range whose records have these times; ``None`` is an offset without a record."""
    cut = _Cut(Range(0, 0, len(times)), room)
    for offset, time in enumerate(times):
        if time is not None and not cut.take(record(offset, time)):
            break
    return cut


@pytest.mark.invariant("8.7")
@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (MAX_MILLISECONDS, False),
        (MAX_MILLISECONDS + 1, True),
        (MIN_MILLISECONDS, False),
        (MIN_MILLISECONDS - 1, True),
        (-1, False),
    ],
)
def test_a_record_is_timeless_if_spark_cannot_read_its_time(milliseconds: int, expected: bool) -> None:
    assert is_timeless(milliseconds) == expected


@pytest.mark.invariant("8.7")
@given(
    st.lists(st.sampled_from([0, 0, 0, 0, -(10**14), OUT_OF_RANGE, None]), max_size=60),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_each_record_is_read_once_by_one_client_or_by_the_next_batch(
    times: list[int | None], max_near: int, max_holes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "MAX_NEAR_RECORDS", max_near)
        patch.setattr(read, "MOST_HOLES", max_holes)
        cut = cut_of(times)
    offsets = [offset for offset, time in enumerate(times) if time is not None and offset < cut.offsets.end]
    by_spark = [o for o in offsets if any(part.start <= o < part.end for part in cut.ranges_outside)]
    by_client = [taken_record.offset for taken_record in (*cut.records_between, *cut.timeless_records)]
    assert sorted([*by_spark, *by_client]) == offsets
    assert [taken_record.offset for taken_record in cut.timeless_records] == [
        o for o in offsets if times[o] == OUT_OF_RANGE
    ]
    assert all(times[taken_record.offset] == 0 for taken_record in cut.records_between), (
        "Spark shifts times from before 1582 by days"
    )
    assert len(cut.holes) <= max_holes
    assert cut.offsets.end == len(times) or times[cut.offsets.end] == OUT_OF_RANGE
    assert not times or cut.offsets.span


@pytest.mark.invariant("8.7", "8.8")
def test_a_cut_without_room_ends_after_its_first_timeless_record() -> None:
    cut = cut_of([0, 0, OUT_OF_RANGE, 0, OUT_OF_RANGE], room=1)
    assert cut.offsets == Range(0, 0, 3)
    assert cut.ranges_outside == [Range(0, 0, 2)]


@pytest.mark.invariant("8.7", "8.8")
def test_a_topic_of_timeless_records_is_cut_when_the_room_ends() -> None:
    cut = cut_of([OUT_OF_RANGE] * 100, room=2_020)
    assert len(cut.timeless_records) == 10
    assert (cut.offsets, cut.ranges_outside) == (Range(0, 0, 10), [])


@pytest.mark.invariant("8.7")
def test_large_records_between_timeless_ones_are_left_to_spark() -> None:
    cut = _Cut(Range(0, 0, 3), read.ROOM)
    for taken_record in (record(0, OUT_OF_RANGE), record(1, 0, bytes(2 * 1024 * 1024)), record(2, OUT_OF_RANGE)):
        assert cut.take(taken_record)
    assert cut.holes == [Range(0, 0, 1), Range(0, 2, 3)]
    assert cut.records_between == []


def test_a_broker_that_delivers_no_record_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_PATIENCE", 0.0)
    silent_consumer = Mock(getmany=AsyncMock(return_value={}), position=AsyncMock(return_value=7))
    with pytest.raises(BrokerError, match="delivered no record of partition 0 from offset 7 on"):
        asyncio.run(_scan(silent_consumer, "t", _Cut(Range(0, 7, 9), read.ROOM)))


@pytest.mark.parametrize(
    ("milliseconds", "is_exact"),
    [
        (read._SHIFTED_BEFORE - 1, False),
        (read._SHIFTED_BEFORE, True),
        (MAX_MILLISECONDS, True),
        (MAX_MILLISECONDS + 1, False),
    ],
)
def test_a_time_that_spark_shifts_or_cannot_read_is_not_exact_in_spark(milliseconds: int, is_exact: bool) -> None:
    assert is_exact_in_spark(milliseconds) is is_exact
