"""Ranges, progress and plans: the arithmetic of offsets and every kind of loss."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.kafka import Incarnation, TopicState
from lakehouse.ledger.positions import (
    Bounds,
    Gap,
    Plan,
    Progress,
    Range,
    SourceId,
    find_gap,
    lag_of,
    plan_batch,
    share_out,
)

pytestmark = pytest.mark.invariant(2, 9)

LAGS = st.dictionaries(st.integers(0, 20), st.integers(0, 10_000), min_size=1, max_size=8)


def state(earliest: dict[int, int], end: dict[int, int], **changes: str) -> TopicState:
    incarnation = Incarnation(**{"cluster_id": "c", "topic_id": "t", **changes})
    return TopicState("readings", incarnation.source, earliest, end)


def progress(offsets: dict[int, int]) -> Progress:
    return Progress(SourceId("kafka", "c/t"), offsets)


def ranges(plan: Plan) -> dict[int, tuple[int, int]]:
    return {part.partition: (part.start, part.end) for part in plan.ranges}


@st.composite
def topics(draw: st.DrawFn) -> tuple[TopicState, Progress | None]:
    """A topic, and progress that fits it; some partitions may be new."""
    spans = draw(
        st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=6)
    )
    earliest = {p: first for p, (first, _) in spans.items()}
    end = {p: first + length for p, (first, length) in spans.items()}
    known = draw(st.sets(st.sampled_from(sorted(spans)))) | {p for p, first in earliest.items() if first}
    merged = {p: draw(st.integers(earliest[p], end[p])) for p in sorted(known)}
    return state(earliest, end), draw(st.sampled_from([None, progress(merged)]))


def test_a_table_without_progress_starts_at_the_earliest_offsets() -> None:
    plan = plan_batch(state({0: 5, 1: 0}, {0: 9, 1: 3}), None)
    assert ranges(plan) == {0: (5, 9), 1: (0, 3)}
    assert plan.span == 7
    assert plan.progress == progress({0: 9, 1: 3})


def test_a_table_goes_on_at_its_progress_and_reads_a_new_partition_from_its_first_record() -> None:
    plan = plan_batch(state({0: 0, 1: 0}, {0: 9, 1: 6}), progress({0: 7}))
    assert ranges(plan) == {0: (7, 9), 1: (0, 6)}
    assert plan.gap is None


def test_what_expired_of_a_new_partition_before_it_was_first_seen_is_a_gap() -> None:
    looked = state({0: 0, 1: 4, 2: 6}, {0: 9, 1: 6, 2: 6})
    plan = plan_batch(looked, progress({0: 7}))
    assert plan.gap
    assert plan.gap.ranges == (Range(1, 0, 4), Range(2, 0, 6))
    assert plan.gap.facts[0] == "Partition 1: records from 0 to 3 were deleted before they were merged"
    assert plan.gap.expired
    assert ranges(plan) == {0: (7, 9), 1: (4, 6), 2: (6, 6)}
    assert find_gap(looked, plan.progress) is None


def test_a_partition_that_was_empty_when_it_was_seen_is_read_from_there() -> None:
    first = plan_batch(state({0: 0, 1: 4}, {0: 9, 1: 4}), None)
    assert first.gap is None
    assert find_gap(state({0: 0, 1: 6}, {0: 9, 1: 6}), first.progress) == Gap(
        ("Partition 1: records from 4 to 5 were deleted before they were merged",), (Range(1, 4, 6),), expired=True
    )


def test_nothing_to_read_is_a_plan_of_empty_ranges() -> None:
    plan = plan_batch(state({0: 0, 1: 2}, {0: 9, 1: 2}), progress({0: 9, 1: 2}))
    assert ranges(plan) == {0: (9, 9), 1: (2, 2)}
    assert plan.span == 0


def test_until_ends_a_range_and_never_turns_it_round() -> None:
    looked = state({0: 0, 1: 0, 2: 0}, {0: 9, 1: 9, 2: 9})
    plan = plan_batch(looked, progress({0: 0, 1: 5, 2: 0}), Bounds(until={0: 4, 1: 3, 2: 99}))
    assert ranges(plan) == {0: (0, 4), 1: (5, 5), 2: (0, 9)}


def test_the_lag_of_a_partition_is_what_is_left_to_read_of_it() -> None:
    assert lag_of(state({0: 2, 1: 0}, {0: 9, 1: 5}), progress({1: 5})) == {0: 7, 1: 0}


@given(LAGS)
def test_without_a_limit_the_whole_lag_is_taken(lags: dict[int, int]) -> None:
    assert share_out(lags, None) == lags


@given(topics(), st.integers(1, 300))
def test_batches_cover_the_whole_topic_without_gap_or_overlap(
    looked: tuple[TopicState, Progress | None], limit: int
) -> None:
    topic, merged = looked
    starts = {p: (merged.positions if merged else {}).get(p, first) for p, first in topic.earliest.items()}
    at = dict(starts)
    for _ in range(sum(lag_of(topic, merged).values()) // limit + 1):
        plan = plan_batch(topic, merged, Bounds(limit))
        assert {part.partition: part.start for part in plan.ranges} == at
        at = {part.partition: part.end for part in plan.ranges}
        merged = plan.progress
    assert at == topic.end
    assert plan_batch(topic, merged).span == 0


@given(topics(), st.integers(0, 300))
def test_a_plan_stays_inside_the_topic_and_the_limit(looked: tuple[TopicState, Progress | None], limit: int) -> None:
    topic, merged = looked
    plan = plan_batch(topic, merged, Bounds(limit))
    assert plan.span == min(limit, sum(lag_of(topic, merged).values()))
    assert [part.partition for part in plan.ranges] == sorted(topic.end)
    assert all(topic.earliest[p.partition] <= p.start <= p.end <= topic.end[p.partition] for p in plan.ranges)


ANEW = "deleted and created again.*not here: partition 0 from offset 3, partition 1 from offset 4"


@pytest.mark.parametrize(
    ("looked", "merged", "said", "gone"),
    [
        (state({0: 0, 1: 0}, {0: 9, 1: 9}, cluster_id="other"), {0: 3}, "cluster other", [Range(0, 3, 3)]),
        (state({0: 0}, {0: 9}, topic_id="other"), {0: 3, 1: 4}, ANEW, [Range(0, 3, 3), Range(1, 4, 4)]),
        (state({0: 0}, {0: 9}), {0: 3, 1: 4}, "Partition 1 is gone, .* offset 4 on", [Range(1, 4, 4)]),
        (state({0: 5}, {0: 9}), {0: 3}, "Partition 0: records from 3 to 4 were deleted", [Range(0, 3, 5)]),
        (state({0: 0}, {0: 2}), {0: 3}, "Partition 0 ends at 2, but .* merged up to 3", [Range(0, 2, 3)]),
    ],
)
def test_what_is_gone_is_named_with_its_offsets(
    looked: TopicState, merged: dict[int, int], said: str, gone: list[Range]
) -> None:
    gap = find_gap(looked, progress(merged))
    assert gap
    assert re.search(said, "; ".join(gap.facts))
    assert list(gap.ranges) == gone


def test_every_partition_that_lost_records_is_named() -> None:
    gap = find_gap(state({0: 5, 1: 0, 2: 7}, {0: 9, 1: 4, 2: 7}), progress({0: 3, 1: 4, 2: 6}))
    assert gap
    assert [part.partition for part in gap.ranges] == [0, 2]
    assert len(gap.facts) == 2


def test_a_plan_behind_a_gap_steps_over_nothing_that_is_there() -> None:
    looked = state({0: 5, 1: 2, 2: 0}, {0: 9, 1: 3, 2: 4})
    plan = plan_batch(looked, progress({0: 3, 1: 6, 2: 1}))
    assert plan.gap
    assert ranges(plan) == {0: (5, 9), 1: (2, 3), 2: (1, 4)}
    assert sum(lag_of(looked, progress({0: 3, 1: 6, 2: 1})).values()) == plan.span


def test_a_plan_behind_another_topic_begins_at_its_earliest_offsets() -> None:
    plan = plan_batch(state({0: 2}, {0: 9}, topic_id="other"), progress({0: 3}))
    assert ranges(plan) == {0: (2, 9)}


@given(topics())
def test_a_progress_that_fits_has_no_gap(looked: tuple[TopicState, Progress | None]) -> None:
    assert find_gap(*looked) is None


def test_progress_at_either_edge_of_the_topic_is_no_loss() -> None:
    looked = state({0: 3, 1: 0}, {0: 9, 1: 4})
    assert find_gap(looked, progress({0: 3, 1: 4})) is None
    assert ranges(plan_batch(looked, progress({0: 3, 1: 4}))) == {0: (3, 9), 1: (4, 4)}


def test_a_range_knows_its_span_and_sorts_by_partition() -> None:
    assert Range(0, 3, 9).span == 6
    assert sorted([Range(1, 0, 1), Range(0, 5, 6)])[0].partition == 0
