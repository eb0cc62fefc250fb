"""Ranges, progress and plans: the arithmetic of offsets, and every kind of loss."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.kafka import Incarnation, TopicState
from lakehouse.ledger.planning import Bounds, lag_of, plan_batch
from lakehouse.ledger.positions import Gap, Plan, Progress, Range, SourceId, divide_limit, find_gap

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
    """A topic, and progress within its offsets; some partitions may be new."""
    spans = draw(
        st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=6)
    )
    earliest = {p: first for p, (first, _) in spans.items()}
    end = {p: first + length for p, (first, length) in spans.items()}
    partitions = draw(st.sets(st.sampled_from(sorted(spans)))) | {p for p, first in earliest.items() if first}
    merged = {p: draw(st.integers(earliest[p], end[p])) for p in sorted(partitions)}
    return state(earliest, end), draw(st.sampled_from([None, progress(merged)]))


@pytest.mark.invariant("2.2")
def test_a_table_without_progress_starts_at_the_earliest_offsets() -> None:
    plan = plan_batch(state({0: 5, 1: 0}, {0: 9, 1: 3}), None)
    assert ranges(plan) == {0: (5, 9), 1: (0, 3)}
    assert plan.span == 7
    assert plan.progress == progress({0: 9, 1: 3})


@pytest.mark.invariant("2.2")
def test_a_plan_begins_at_the_progress_and_reads_a_new_partition_from_its_first_record() -> None:
    plan = plan_batch(state({0: 0, 1: 0}, {0: 9, 1: 6}), progress({0: 7}))
    assert ranges(plan) == {0: (7, 9), 1: (0, 6)}
    assert plan.gap is None


@pytest.mark.invariant("9.1")
def test_expired_records_of_a_new_partition_are_a_gap() -> None:
    topic = state({0: 0, 1: 4, 2: 6}, {0: 9, 1: 6, 2: 6})
    plan = plan_batch(topic, progress({0: 7}))
    assert plan.gap
    assert plan.gap.ranges == (Range(1, 0, 4), Range(2, 0, 6))
    assert plan.gap.facts[0] == "Partition 1: records from 0 to 3 were deleted before they were merged: 4 offsets"
    assert plan.gap.expired
    assert ranges(plan) == {0: (7, 9), 1: (4, 6), 2: (6, 6)}
    assert find_gap(topic, plan.progress) is None


@pytest.mark.invariant("9.1")
def test_an_empty_partition_is_read_from_its_end_at_that_time() -> None:
    first_plan = plan_batch(state({0: 0, 1: 4}, {0: 9, 1: 4}), None)
    assert first_plan.gap is None
    assert find_gap(state({0: 0, 1: 6}, {0: 9, 1: 6}), first_plan.progress) == Gap(
        ("Partition 1: records from 4 to 5 were deleted before they were merged: 2 offsets",),
        (Range(1, 4, 6),),
        expired=True,
    )


def test_a_plan_without_records_has_empty_ranges() -> None:
    plan = plan_batch(state({0: 0, 1: 2}, {0: 9, 1: 2}), progress({0: 9, 1: 2}))
    assert ranges(plan) == {0: (9, 9), 1: (2, 2)}
    assert plan.span == 0


def test_until_ends_a_range_and_never_reverses_it() -> None:
    topic = state({0: 0, 1: 0, 2: 0}, {0: 9, 1: 9, 2: 9})
    plan = plan_batch(topic, progress({0: 0, 1: 5, 2: 0}), Bounds(until={0: 4, 1: 3, 2: 99}))
    assert ranges(plan) == {0: (0, 4), 1: (5, 5), 2: (0, 9)}


def test_the_lag_of_a_partition_is_the_number_of_unread_offsets() -> None:
    assert lag_of(state({0: 2, 1: 0}, {0: 9, 1: 5}), progress({1: 5})) == {0: 7, 1: 0}


@given(LAGS)
def test_without_a_limit_the_whole_lag_is_read(lags: dict[int, int]) -> None:
    assert divide_limit(lags, None) == lags


@pytest.mark.invariant("2.5")
@given(topics(), st.integers(1, 300))
def test_batches_cover_the_whole_topic_without_gap_or_overlap(
    topic_and_progress: tuple[TopicState, Progress | None], limit: int
) -> None:
    topic, merged = topic_and_progress
    starts = {p: (merged.positions if merged else {}).get(p, first) for p, first in topic.earliest.items()}
    positions = dict(starts)
    for _ in range(sum(lag_of(topic, merged).values()) // limit + 1):
        plan = plan_batch(topic, merged, Bounds(limit))
        assert {part.partition: part.start for part in plan.ranges} == positions
        positions = {part.partition: part.end for part in plan.ranges}
        merged = plan.progress
    assert positions == topic.end
    assert plan_batch(topic, merged).span == 0


@pytest.mark.invariant("2.5")
@given(topics(), st.integers(0, 300))
def test_a_plan_stays_within_the_topic_and_the_limit(
    topic_and_progress: tuple[TopicState, Progress | None], limit: int
) -> None:
    topic, merged = topic_and_progress
    plan = plan_batch(topic, merged, Bounds(limit))
    assert plan.span == min(limit, sum(lag_of(topic, merged).values()))
    assert [part.partition for part in plan.ranges] == sorted(topic.end)
    assert all(topic.earliest[p.partition] <= p.start <= p.end <= topic.end[p.partition] for p in plan.ranges)


RECREATED_TEXT = "deleted and created again.*not available: partition 0 from offset 3, partition 1 from offset 4"


@pytest.mark.invariant("9.1")
@pytest.mark.parametrize(
    ("topic", "merged", "fact", "lost_ranges"),
    [
        (state({0: 0, 1: 0}, {0: 9, 1: 9}, cluster_id="other"), {0: 3}, "cluster other", [Range(0, 3, 3)]),
        (state({0: 0}, {0: 9}, topic_id="other"), {0: 3, 1: 4}, RECREATED_TEXT, [Range(0, 3, 3), Range(1, 4, 4)]),
        (state({0: 0}, {0: 9}), {0: 3, 1: 4}, "Partition 1 no longer exists, .* offset 4 on", [Range(1, 4, 4)]),
        (state({0: 5}, {0: 9}), {0: 3}, "Partition 0: records from 3 to 4 were deleted", [Range(0, 3, 5)]),
        (state({0: 0}, {0: 2}), {0: 3}, "Partition 0 ends at 2, but .* merged up to 3", [Range(0, 2, 3)]),
    ],
)
def test_a_loss_is_described_with_its_offsets(
    topic: TopicState, merged: dict[int, int], fact: str, lost_ranges: list[Range]
) -> None:
    gap = find_gap(topic, progress(merged))
    assert gap
    assert re.search(fact, "; ".join(gap.facts))
    assert list(gap.ranges) == lost_ranges


@pytest.mark.invariant("9.1")
def test_every_partition_that_lost_records_is_described() -> None:
    gap = find_gap(state({0: 5, 1: 0, 2: 7}, {0: 9, 1: 4, 2: 7}), progress({0: 3, 1: 4, 2: 6}))
    assert gap
    assert [part.partition for part in gap.ranges] == [0, 2]
    assert len(gap.facts) == 2


def test_a_plan_after_a_gap_skips_no_available_records() -> None:
    topic = state({0: 5, 1: 2, 2: 0}, {0: 9, 1: 3, 2: 4})
    plan = plan_batch(topic, progress({0: 3, 1: 6, 2: 1}))
    assert plan.gap
    assert ranges(plan) == {0: (5, 9), 1: (2, 3), 2: (1, 4)}
    assert sum(lag_of(topic, progress({0: 3, 1: 6, 2: 1})).values()) == plan.span


def test_a_plan_for_another_topic_begins_at_its_earliest_offsets() -> None:
    plan = plan_batch(state({0: 2}, {0: 9}, topic_id="other"), progress({0: 3}))
    assert ranges(plan) == {0: (2, 9)}


@pytest.mark.invariant("9.1")
@given(topics())
def test_progress_within_the_topic_has_no_gap(topic_and_progress: tuple[TopicState, Progress | None]) -> None:
    assert find_gap(*topic_and_progress) is None


@pytest.mark.invariant("9.1")
def test_progress_at_either_edge_of_the_topic_is_no_loss() -> None:
    topic = state({0: 3, 1: 0}, {0: 9, 1: 4})
    assert find_gap(topic, progress({0: 3, 1: 4})) is None
    assert ranges(plan_batch(topic, progress({0: 3, 1: 4}))) == {0: (3, 9), 1: (4, 4)}


def test_a_range_has_a_span_and_sorts_by_partition() -> None:
    assert Range(0, 3, 9).span == 6
    assert sorted([Range(1, 0, 1), Range(0, 5, 6)])[0].partition == 0


def test_a_gap_in_many_partitions_names_the_first_ones_and_counts_the_others() -> None:
    counts = dict.fromkeys(range(2_000), 5)
    gap = find_gap(state(counts, dict.fromkeys(range(2_000), 9)), progress(dict.fromkeys(range(2_000), 3)))
    assert gap is not None
    assert (len(gap.facts), len(gap.shown_facts)) == (2_000, 6)
    assert gap.shown_facts[0].startswith("Partition 0: records from 3 to 4 were deleted")
    assert gap.shown_facts[-1] == "1,995 more partitions with a loss"


@pytest.mark.parametrize(
    ("overtaken", "unchanged", "hides_deletes"),
    [((0, 1), {}, True), ((0,), {1: 2}, False), ((0, 1), {1: 2}, False), ((), {0: 2}, False)],
)
def test_a_gap_hides_deletes_alone_if_no_partition_lost_other_records(
    overtaken: tuple[int, ...], unchanged: dict[int, int], hides_deletes: bool
) -> None:
    topic = replace(state({0: 0, 1: 0}, {0: 9, 1: 9}), overtaken=overtaken, unchanged=unchanged)
    gap = find_gap(topic, progress({0: 5, 1: 5}))
    assert gap and gap.hides_deletes is hides_deletes
