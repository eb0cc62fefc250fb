"""A limit is divided fairly: every partition with lag advances or has its turn, no matter which records arrive."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.kafka import TopicState
from lakehouse.ledger.planning import Bounds, plan_batch
from lakehouse.ledger.positions import Progress, SourceId, divide_limit

pytestmark = pytest.mark.invariant("2.5")

SMALL_LAGS = st.integers(0, 5)
LARGE_LAGS = st.integers(0, 10**9)
LAGS = st.dictionaries(st.integers(0, 30), SMALL_LAGS | LARGE_LAGS, max_size=12)
LIMITS = st.integers(1, 30) | st.integers(1, 10**6)


def topic_state(earliest: dict[int, int], end: dict[int, int]) -> TopicState:
    return TopicState("readings", SourceId("kafka", "c/t"), earliest, end)


def test_small_lags_are_read_in_full_and_the_large_one_gets_the_rest() -> None:
    assert divide_limit({0: 10**9, 1: 10, 2: 10}, 10**5) == {0: 10**5 - 20, 1: 10, 2: 10}


def test_the_shares_never_exceed_the_limit_or_a_lag() -> None:
    assert divide_limit({0: 300, 1: 100}, 40) == {0: 20, 1: 20}
    assert sorted(divide_limit({0: 9, 1: 9, 2: 9}, 10).values()) == [3, 3, 4]
    assert divide_limit({}, 10) == {}


@given(LAGS, LIMITS | st.just(0), LARGE_LAGS)
def test_the_shares_add_up_to_the_limit_or_to_the_total_lag(lags: dict[int, int], limit: int, turn: int) -> None:
    shares = divide_limit(lags, limit, turn)
    assert shares.keys() == lags.keys()
    assert all(0 <= shares[p] <= lags[p] for p in lags)
    assert sum(shares.values()) == min(limit, sum(lags.values()))


@given(LAGS, LIMITS, LARGE_LAGS)
def test_a_partition_with_a_smaller_share_gets_its_whole_lag(lags: dict[int, int], limit: int, turn: int) -> None:
    """The shares are max-min fair, up to one offset if the limit cannot be divided."""
    shares = divide_limit(lags, limit, turn)
    lagging = [p for p in lags if lags[p]]
    unfinished = [p for p in lagging if shares[p] < lags[p]]
    assert all(shares[other_partition] <= shares[p] + 1 for p in unfinished for other_partition in lagging)
    assert len(lagging) > limit or all(shares[p] for p in lagging)


@st.composite
def topics(draw: st.DrawFn) -> tuple[dict[int, int], int, list[dict[int, int]]]:
    """The first offset of each partition, a limit, and the numbers of records that arrive before every batch."""
    numbers = draw(st.lists(st.integers(0, 40), min_size=1, max_size=10, unique=True))
    starts = {p: draw(st.integers(0, 1000)) for p in numbers}
    arrivals = st.dictionaries(st.sampled_from(numbers), st.integers(0, 3) | st.integers(0, 10_000), max_size=10)
    return starts, draw(st.integers(1, 12)), draw(st.lists(arrivals, min_size=1, max_size=40))


@settings(deadline=None, max_examples=300)
@given(topics())
def test_every_partition_with_lag_advances_within_one_round_of_turns(
    topic: tuple[dict[int, int], int, list[dict[int, int]]],
) -> None:
    starts, limit, arrivals = topic
    turns = -(-len(starts) // limit)
    end, progress = dict(starts), Progress(SourceId("kafka", "c/t"), dict(starts))
    batches_waited = dict.fromkeys(starts, 0)
    for new_records in arrivals:
        end = {p: offset + new_records.get(p, 0) for p, offset in end.items()}
        plan = plan_batch(topic_state(starts, end), progress, Bounds(max_records=limit))
        assert plan.span == min(limit, sum(end.values()) - sum(progress.positions.values()))
        lagging = {p for p in end if progress.positions[p] < end[p]}
        for part in plan.ranges:
            has_to_wait = part.partition in lagging and not part.span
            assert not has_to_wait or len(lagging) > limit, "only if more partitions lag than the limit"
            batches_waited[part.partition] = batches_waited[part.partition] + 1 if has_to_wait else 0
        assert max(batches_waited.values()) < turns
        progress = plan.progress


def test_with_a_limit_of_one_all_partitions_take_turns() -> None:
    end, progress = dict.fromkeys(range(5), 100), Progress(SourceId("kafka", "c/t"), dict.fromkeys(range(5), 0))
    partitions_read = []
    for _ in range(20):
        plan = plan_batch(topic_state(dict.fromkeys(end, 0), end), progress, Bounds(max_records=1))
        partitions_read += [part.partition for part in plan.ranges if part.span]
        progress = plan.progress
    assert all((after - before) % 5 == 1 for before, after in pairwise(partitions_read))


def test_the_same_state_gives_the_same_plan() -> None:
    state, progress = (
        topic_state({0: 0, 1: 0, 2: 0}, {0: 9, 1: 9, 2: 9}),
        Progress(SourceId("kafka", "c/t"), {0: 3, 1: 1, 2: 0}),
    )
    assert plan_batch(state, progress, Bounds(max_records=2)) == plan_batch(state, progress, Bounds(max_records=2))
