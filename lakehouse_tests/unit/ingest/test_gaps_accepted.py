"""A declaration may accept only gaps of expired records, which retention removed from the start of a partition."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.defs.figures import count_commits
from lakehouse.errors import DataLossError, DeclarationError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.gaps import gap_commit, plan_next_of, plan_table
from lakehouse.kafka import Incarnation, TopicState
from lakehouse.ledger.commits import Commit, Entry, Kind, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds, plan_batch
from lakehouse.ledger.positions import Plan, Progress, Range, SourceId
from lakehouse_tests.helpers.tables.tables import redeclare

ACCEPTING = redeclare(temperatures, gaps="accept")
NO_LEDGER = Ledger("t")
MERGED = Progress(SourceId("kafka", "c/t"), {0: 3, 1: 4})


def entry(kind: Kind, **fields: Any) -> Entry:
    """Return the first commit of a table, of this kind."""
    commit = Commit(kind=kind, number=1, attempt="a", table_version=0, **fields)
    return Entry(1, datetime.now(UTC), commit, Metrics())


def after(commit: Commit, ledger: Ledger = NO_LEDGER) -> Ledger:
    """Return the ledger after a commit, without the commits before it."""
    return replace(ledger, entries=(Entry(3, datetime.now(UTC), commit, Metrics()),), transaction=commit.number)


LEDGER = Ledger("t", entries=(entry("batch", source=MERGED.source, progress=MERGED.positions),), transaction=1)
UNDONE_LEDGER = Ledger("t", exists=True, transaction=2, undone_numbers=frozenset({1, 2}), has_undone_progress=True)


def topic_state(earliest: dict[int, int], end: dict[int, int], **changes: Any) -> TopicState:
    return TopicState("readings", Incarnation(**{"cluster_id": "c", "topic_id": "t"} | changes).source, earliest, end)


EXPIRED_STATE = topic_state({0: 5, 1: 4}, {0: 9, 1: 9})
OTHER_GAPS = {
    "another cluster": topic_state({0: 0, 1: 0}, {0: 9, 1: 9}, cluster_id="other"),
    "another cluster with the topic's id": topic_state({0: 5, 1: 5}, {0: 9, 1: 9}, cluster_id="other"),
    "a recreated topic": topic_state({0: 0, 1: 0}, {0: 9, 1: 9}, topic_id="other"),
    "a recreated topic with expired records": topic_state({0: 5, 1: 5}, {0: 9, 1: 9}, topic_id="other"),
    "a partition that is gone": topic_state({0: 0}, {0: 9}),
    "a topic that ends before the progress": topic_state({0: 0, 1: 0}, {0: 2, 1: 9}),
    "an empty topic that ends before the progress": topic_state({0: 2, 1: 0}, {0: 2, 1: 9}),
    "one partition expired, another gone": topic_state({0: 5}, {0: 9}),
    "one partition expired, another cut off": topic_state({0: 5, 1: 0}, {0: 9, 1: 3}),
}


def plan(state: TopicState, table: Any = ACCEPTING, ledger: Ledger = LEDGER) -> Plan:
    return plan_table(table, state, ledger, Bounds())


@pytest.mark.invariant("9.4")
def test_a_declaration_accepts_a_gap_of_expired_records() -> None:
    batch_plan = plan(EXPIRED_STATE)
    assert batch_plan.gap
    assert batch_plan.gap.ranges == (Range(0, 3, 5),)
    assert [(part.start, part.end) for part in batch_plan.ranges] == [(5, 9), (4, 9)]


@pytest.mark.invariant("9.4")
def test_a_declaration_accepts_a_topic_whose_records_all_expired() -> None:
    state = topic_state({0: 9, 1: 9}, {0: 9, 1: 9})
    assert plan(state).gap == plan_batch(state, MERGED).gap


@pytest.mark.invariant("9.4")
@pytest.mark.parametrize("state", OTHER_GAPS.values(), ids=OTHER_GAPS)
def test_a_declaration_accepts_no_other_gap(state: TopicState) -> None:
    with pytest.raises(DataLossError, match="lakehouse repair gap temperatures"):
        plan(state)


@pytest.mark.invariant("9.1")
@pytest.mark.parametrize("state", [EXPIRED_STATE, *OTHER_GAPS.values()])
def test_a_declaration_that_does_not_accept_gaps_accepts_none(state: TopicState) -> None:
    with pytest.raises(DataLossError):
        plan(state, temperatures)


@pytest.mark.parametrize("state", [EXPIRED_STATE, *OTHER_GAPS.values()])
def test_a_user_may_accept_every_gap(state: TopicState) -> None:
    """``repair gap`` plans without the setting of the declaration."""
    assert plan_batch(state, MERGED).gap


def test_a_gap_commit_records_no_declaration() -> None:
    """Its columns are added later: a missing column would seem to have been dropped."""
    assert gap_commit(Ledger("t"), plan_batch(EXPIRED_STATE, MERGED), "cli").declaration == ""


@pytest.mark.invariant("9.2")
@pytest.mark.parametrize("ledger", [UNDONE_LEDGER, replace(UNDONE_LEDGER, entries=(entry("base"),), transaction=3)])
def test_after_a_restore_that_undid_all_batches_expired_records_are_a_gap(ledger: Ledger) -> None:
    with pytest.raises(DataLossError, match=r"records from 0 to 4.* lakehouse repair gap temperatures"):
        plan(EXPIRED_STATE, temperatures, ledger)
    assert plan(EXPIRED_STATE, ledger=ledger).gap == plan_next_of(ledger, EXPIRED_STATE, Bounds()).gap
    batch_plan = plan_next_of(ledger, EXPIRED_STATE, Bounds())
    assert batch_plan.gap and batch_plan.gap.ranges == (Range(0, 0, 5), Range(1, 0, 4))
    assert [(part.start, part.end) for part in batch_plan.ranges] == [(5, 9), (4, 9)]


def test_after_a_restore_that_undid_all_batches_a_whole_topic_begins_at_its_first_record() -> None:
    state = topic_state({0: 0, 1: 0}, {0: 9, 1: 9})
    assert plan(state, temperatures, UNDONE_LEDGER) == plan_batch(state, None)


@pytest.mark.invariant("2.2")
@pytest.mark.parametrize("ledger", [Ledger("t"), Ledger("t", entries=(entry("base"),), transaction=1)])
def test_a_table_without_merged_records_begins_at_the_earliest_record_without_a_gap(ledger: Ledger) -> None:
    assert plan(EXPIRED_STATE, temperatures, ledger).gap is None


@pytest.mark.invariant("9.2")
def test_a_restore_that_undid_no_batch_makes_no_gap_of_expired_records() -> None:
    """As when a RESTORE undid only the base rows: the table begins at the earliest record."""
    ledger = Ledger("t", exists=True, transaction=1, undone_numbers=frozenset({1}))
    batch_plan = plan(EXPIRED_STATE, temperatures, ledger)
    assert batch_plan.gap is None
    assert [(part.start, part.end) for part in batch_plan.ranges] == [(5, 9), (4, 9)]


@pytest.mark.invariant("9.8")
def test_an_order_by_offset_is_refused_for_a_table_with_rows_of_a_deleted_topic() -> None:
    """The order was declared after the gap was accepted: every new record would be older than the stored rows."""
    recreated_topic = topic_state({0: 0}, {0: 9}, topic_id="other")
    ledger = after(gap_commit(LEDGER, plan_batch(recreated_topic, MERGED), "run"))
    by_offset = redeclare(temperatures, order="offset")
    assert plan(recreated_topic, ledger=ledger).span == 9
    with pytest.raises(DeclarationError, match=r'from a deleted topic.*order="timestamp"'):
        plan(recreated_topic, by_offset, ledger)
    assert plan(topic_state({0: 0, 1: 0}, {0: 9, 1: 9}), by_offset).span == 11


@pytest.mark.invariant("9.8")
def test_an_order_by_offset_is_refused_until_a_rolled_back_broker_reaches_its_former_end() -> None:
    rolled_back, by_offset = topic_state({0: 0, 1: 0}, {0: 2, 1: 9}), redeclare(temperatures, order="offset")
    ledger = after(gap_commit(LEDGER, plan_batch(rolled_back, MERGED), "run"))
    with pytest.raises(DeclarationError, match="that the broker has lost"):
        plan(topic_state({0: 0, 1: 0}, {0: 9, 1: 9}), by_offset, ledger)
    batch = ledger.next_commit("batch", "run").model_copy(update={"progress": MERGED.positions})
    assert plan(topic_state({0: 0, 1: 0}, {0: 9, 1: 9}), by_offset, after(batch)).span == 11


@pytest.mark.invariant("9.8")
def test_an_order_by_offset_is_accepted_after_a_restore_removed_the_rows_of_another_topic() -> None:
    """As when the first batch was merged from the wrong broker."""
    by_offset, state = redeclare(temperatures, order="offset"), topic_state({0: 0, 1: 0}, {0: 9, 1: 9})
    undone_ledger = replace(UNDONE_LEDGER, undone_ends={"wrong/x": {0: 500}}).merged_by_key()
    assert plan(state, by_offset, undone_ledger).span == 18
    first_batch = undone_ledger.next_commit("batch", "run").model_copy(
        update={"source": state.source, "progress": {0: 5, 1: 5}}
    )
    assert plan(state, by_offset, after(first_batch, undone_ledger)).span == 8


WIDENED_STATE = topic_state({0: 0, 1: 0, 2: 5}, {0: 9, 1: 9, 2: 9})


@pytest.mark.invariant("9.1")
def test_records_that_expired_in_a_new_partition_are_a_gap() -> None:
    with pytest.raises(DataLossError, match=r"Partition 2: records from 0 to 4.* lakehouse repair gap temperatures"):
        plan(WIDENED_STATE, temperatures)
    batch_plan = plan(WIDENED_STATE)
    assert batch_plan.gap and batch_plan.gap.ranges == (Range(2, 0, 5),)
    ledger = after(gap_commit(LEDGER, batch_plan, "run"))
    assert ledger.newest.commit.progress == {0: 3, 1: 4, 2: 5}
    assert count_commits(ledger.entries, ledger)["gaps"] == 1


@pytest.mark.invariant("9.1")
def test_a_recreated_topic_begins_at_its_earliest_record_once_the_loss_is_accepted() -> None:
    """Records that expired before are not a gap; in a partition that it gets later they are."""
    recreated_topic = topic_state({0: 5}, {0: 9}, topic_id="other")
    gap = gap_commit(LEDGER, plan_next_of(LEDGER, recreated_topic, Bounds()), "run")
    assert gap.progress == {0: 5}
    ledger = after(gap)
    assert plan(recreated_topic, temperatures, ledger).span == 4
    with pytest.raises(DataLossError, match="Partition 1: records from 0 to 1 were deleted"):
        plan(topic_state({0: 5, 1: 2}, {0: 9, 1: 2}, topic_id="other"), temperatures, ledger)


def test_a_topic_that_is_read_again_after_another_one_has_a_gap_of_expired_records() -> None:
    """As when a wrong address was accepted and is corrected."""
    other_topic = topic_state({0: 0}, {0: 9}, cluster_id="wrong")
    ledger = after(gap_commit(LEDGER, plan_next_of(LEDGER, other_topic, Bounds()), "run"))
    gap_after = plan_next_of(ledger, topic_state({0: 5, 1: 4, 2: 1}, {0: 9, 1: 9, 2: 3}), Bounds()).gap
    assert gap_after and not gap_after.expired
    assert gap_after.ranges == (Range(0, 0, 0), Range(0, 3, 5), Range(2, 0, 1))
    whole_gap = plan_next_of(ledger, topic_state({0: 0, 1: 0}, {0: 9, 1: 9}), Bounds()).gap
    assert whole_gap and whole_gap.ranges == (Range(0, 0, 0),)
