"""A limit is shared out fairly: every partition that waits advances or has its turn, whatever arrives meanwhile."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.kafka import TopicState
from lakehouse.ledger.positions import Bounds, Progress, SourceId, plan_batch, share_out

FEW = st.integers(0, 5)
MANY = st.integers(0, 10**9)
LAGS = st.dictionaries(st.integers(0, 30), FEW | MANY, max_size=12)
LIMITS = st.integers(1, 30) | st.integers(1, 10**6)


def looked(earliest: dict[int, int], end: dict[int, int]) -> TopicState:
    return TopicState("readings", SourceId("kafka", "c/t"), earliest, end)


def test_small_lags_are_served_whole_and_the_large_one_takes_what_is_left() -> None:
    assert share_out({0: 10**9, 1: 10, 2: 10}, 10**5) == {0: 10**5 - 20, 1: 10, 2: 10}


def test_what_is_left_over_never_exceeds_the_limit_or_a_lag() -> None:
    assert share_out({0: 300, 1: 100}, 40) == {0: 20, 1: 20}
    assert sorted(share_out({0: 9, 1: 9, 2: 9}, 10).values()) == [3, 3, 4]
    assert share_out({}, 10) == {}


@given(LAGS, LIMITS | st.just(0), MANY)
def test_the_shares_add_up_to_the_limit_or_to_the_whole_lag(lags: dict[int, int], limit: int, turn: int) -> None:
    shares = share_out(lags, limit, turn)
    assert shares.keys() == lags.keys()
    assert all(0 <= shares[p] <= lags[p] for p in lags)
    assert sum(shares.values()) == min(limit, sum(lags.values()))


@given(LAGS, LIMITS, MANY)
def test_who_gets_less_than_another_gets_all_it_waits_for(lags: dict[int, int], limit: int, turn: int) -> None:
    """Max-min fair, but for one offset where the limit cannot be divided."""
    shares = share_out(lags, limit, turn)
    waiting = [p for p in lags if lags[p]]
    unserved = [p for p in waiting if shares[p] < lags[p]]
    assert all(shares[other] <= shares[p] + 1 for p in unserved for other in waiting)
    assert len(waiting) > limit or all(shares[p] for p in waiting)


@st.composite
def topics(draw: st.DrawFn) -> tuple[dict[int, int], int, list[dict[int, int]]]:
    """Where each partition begins, a limit, and how many records arrive in each before every batch."""
    numbers = draw(st.lists(st.integers(0, 40), min_size=1, max_size=10, unique=True))
    begins = {p: draw(st.integers(0, 1000)) for p in numbers}
    arrivals = st.dictionaries(st.sampled_from(numbers), st.integers(0, 3) | st.integers(0, 10_000), max_size=10)
    return begins, draw(st.integers(1, 12)), draw(st.lists(arrivals, min_size=1, max_size=40))


@settings(deadline=None, max_examples=300)
@given(topics())
def test_every_partition_that_waits_advances_within_as_many_batches_as_there_are_turns(
    topic: tuple[dict[int, int], int, list[dict[int, int]]],
) -> None:
    begins, limit, arrivals = topic
    turns = -(-len(begins) // limit)
    end, progress = dict(begins), Progress(SourceId("kafka", "c/t"), dict(begins))
    waited = dict.fromkeys(begins, 0)
    for arrived in arrivals:
        end = {p: offset + arrived.get(p, 0) for p, offset in end.items()}
        plan = plan_batch(looked(begins, end), progress, Bounds(max_records=limit))
        assert plan.span == min(limit, sum(end.values()) - sum(progress.positions.values()))
        waiting = {p for p in end if progress.positions[p] < end[p]}
        for part in plan.ranges:
            waits = part.partition in waiting and not part.span
            assert not waits or len(waiting) > limit, "only where there are more of them than the limit"
            waited[part.partition] = waited[part.partition] + 1 if waits else 0
        assert max(waited.values()) < turns
        progress = plan.progress


def test_with_a_limit_of_one_all_partitions_take_turns() -> None:
    end, progress = dict.fromkeys(range(5), 100), Progress(SourceId("kafka", "c/t"), dict.fromkeys(range(5), 0))
    served = []
    for _ in range(20):
        plan = plan_batch(looked(dict.fromkeys(end, 0), end), progress, Bounds(max_records=1))
        served += [part.partition for part in plan.ranges if part.span]
        progress = plan.progress
    assert all((after - before) % 5 == 1 for before, after in pairwise(served))


def test_the_same_look_gives_the_same_plan() -> None:
    state, progress = (
        looked({0: 0, 1: 0, 2: 0}, {0: 9, 1: 9, 2: 9}),
        Progress(SourceId("kafka", "c/t"), {0: 3, 1: 1, 2: 0}),
    )
    assert plan_batch(state, progress, Bounds(max_records=2)) == plan_batch(state, progress, Bounds(max_records=2))
