"""A plan is cut around records whose time is beyond any timestamp: nothing is read twice, and nothing is left out."""

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import BrokerError
from lakehouse.kafka import Record, timeless
from lakehouse.kafka.timeless import LEAST, MOST, _Cut, _scan, is_timeless
from lakehouse.ledger.positions import Range

pytestmark = pytest.mark.invariant(2, 8)

NONE = MOST + 1


def record(offset: int, milliseconds: int, value: bytes = b"{}") -> Record:
    return Record(0, offset, milliseconds, None, value)


def cut_of(times: list[int | None], room: int = timeless.ROOM) -> _Cut:
    """The cut of a range whose records have these times; ``None`` is a hole in the topic."""
    cut = _Cut(Range(0, 0, len(times)), room)
    for offset, time in enumerate(times):
        if time is not None and not cut.take(record(offset, time)):
            break
    return cut


@pytest.mark.parametrize(
    ("milliseconds", "beyond"), [(MOST, False), (MOST + 1, True), (LEAST, False), (LEAST - 1, True), (-1, False)]
)
def test_what_spark_can_read_is_no_record_without_a_time(milliseconds: int, beyond: bool) -> None:
    assert is_timeless(milliseconds) == beyond


@given(
    st.lists(st.sampled_from([0, 0, 0, 0, -(10**14), NONE, None]), max_size=60), st.integers(0, 3), st.integers(1, 3)
)
def test_each_record_is_read_once_by_one_client_or_by_the_next_batch(
    times: list[int | None], near: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeless, "NEAR", near)
        patch.setattr(timeless, "MOST_HOLES", most)
        cut = cut_of(times)
    there = [offset for offset, time in enumerate(times) if time is not None and offset < cut.part.end]
    by_spark = [o for o in there if any(part.start <= o < part.end for part in cut.outside)]
    here = [each.offset for each in (*cut.between, *cut.timeless)]
    assert sorted([*by_spark, *here]) == there
    assert [each.offset for each in cut.timeless] == [o for o in there if times[o] == NONE]
    assert all(times[each.offset] == 0 for each in cut.between), "Spark shifts times from before 1582 by days"
    assert len(cut.holes) <= most
    assert cut.part.end == len(times) or times[cut.part.end] == NONE
    assert not times or cut.part.span


def test_a_cut_without_room_ends_behind_its_first_record_without_a_time() -> None:
    cut = cut_of([0, 0, NONE, 0, NONE], room=1)
    assert cut.part == Range(0, 0, 3)
    assert cut.outside == [Range(0, 0, 2)]


def test_a_topic_of_nothing_else_is_cut_where_the_room_ends() -> None:
    cut = cut_of([NONE] * 100, room=2_020)
    assert len(cut.timeless) == 10
    assert (cut.part, cut.outside) == (Range(0, 0, 10), [])


def test_what_is_between_two_is_read_beside_them_within_few_bytes() -> None:
    cut = _Cut(Range(0, 0, 3), timeless.ROOM)
    for each in (record(0, NONE), record(1, 0, bytes(2 * 1024 * 1024)), record(2, NONE)):
        assert cut.take(each)
    assert cut.holes == [Range(0, 0, 1), Range(0, 2, 3)]
    assert cut.between == []


def test_a_broker_that_gives_no_record_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeless, "_PATIENCE", 0.0)
    silent = Mock(getmany=AsyncMock(return_value={}), position=AsyncMock(return_value=7))
    with pytest.raises(BrokerError, match="gave nothing of partition 0 from offset 7 on"):
        asyncio.run(_scan(silent, "t", _Cut(Range(0, 7, 9), timeless.ROOM)))
