"""Which gaps a declaration may accept by itself: what retention removed from the front of a partition, nothing else."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.errors import DataLossError, DeclarationError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.gaps import gap_commit, plan_next_of, plan_table
from lakehouse.kafka import Incarnation, TopicState
from lakehouse.ledger.commits import Commit, Entry, Kind, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Bounds, Plan, Progress, Range, SourceId, plan_batch

ACCEPTING = replace(temperatures, gaps="accept")
MERGED = Progress(SourceId("kafka", "c/t"), {0: 3, 1: 4})


def merged(kind: Kind, **told: Any) -> Entry:
    """The first commit of a table, of such a kind."""
    said = Commit(kind=kind, number=1, attempt="a", table_version=0, **told)
    return Entry(1, datetime.now(UTC), said, Metrics())


LEDGER = Ledger("t", entries=(merged("batch", source=MERGED.source, progress=MERGED.positions),), transaction=1)
UNDONE = Ledger("t", exists=True, transaction=2, undone=frozenset({1, 2}), unread=True)


def looked(earliest: dict[int, int], end: dict[int, int], **changes: Any) -> TopicState:
    return TopicState("readings", Incarnation(**{"cluster_id": "c", "topic_id": "t"} | changes).source, earliest, end)


EXPIRED = looked({0: 5, 1: 4}, {0: 9, 1: 9})
OTHERS = {
    "another cluster": looked({0: 0, 1: 0}, {0: 9, 1: 9}, cluster_id="other"),
    "another cluster with the topic's id": looked({0: 5, 1: 5}, {0: 9, 1: 9}, cluster_id="other"),
    "a topic made anew": looked({0: 0, 1: 0}, {0: 9, 1: 9}, topic_id="other"),
    "a topic made anew, of which records expired": looked({0: 5, 1: 5}, {0: 9, 1: 9}, topic_id="other"),
    "a partition that is gone": looked({0: 0}, {0: 9}),
    "a topic that ends behind the progress": looked({0: 0, 1: 0}, {0: 2, 1: 9}),
    "an empty topic that ends behind the progress": looked({0: 2, 1: 0}, {0: 2, 1: 9}),
    "one partition expired, another gone": looked({0: 5}, {0: 9}),
    "one partition expired, another cut off": looked({0: 5, 1: 0}, {0: 9, 1: 3}),
}


def planned(state: TopicState, table: Any = ACCEPTING, ledger: Ledger = LEDGER) -> Plan:
    return plan_table(table, state, ledger, Bounds())


def test_what_retention_removed_is_accepted_by_the_declaration() -> None:
    plan = planned(EXPIRED)
    assert plan.gap
    assert plan.gap.ranges == (Range(0, 3, 5),)
    assert [(part.start, part.end) for part in plan.ranges] == [(5, 9), (4, 9)]


def test_a_topic_of_which_all_expired_is_accepted_as_well() -> None:
    assert planned(looked({0: 9, 1: 9}, {0: 9, 1: 9})).gap == plan_batch(looked({0: 9, 1: 9}, {0: 9, 1: 9}), MERGED).gap


@pytest.mark.parametrize("state", OTHERS.values(), ids=OTHERS)
def test_nothing_else_is_accepted_by_the_declaration(state: TopicState) -> None:
    with pytest.raises(DataLossError, match="lakehouse accept-gap temperatures"):
        planned(state)


@pytest.mark.parametrize("state", [EXPIRED, *OTHERS.values()])
def test_a_declaration_that_does_not_accept_gaps_accepts_none(state: TopicState) -> None:
    with pytest.raises(DataLossError):
        planned(state, temperatures)


@pytest.mark.parametrize("state", [EXPIRED, *OTHERS.values()])
def test_a_person_may_accept_every_gap(state: TopicState) -> None:
    """``accept-gap`` plans without the declaration's word."""
    assert plan_batch(state, MERGED).gap


def test_a_gap_says_of_no_declaration_that_the_table_has_its_columns() -> None:
    """They are added later: a column that is missing then would seem to have been dropped."""
    assert gap_commit(Ledger("t"), plan_batch(EXPIRED, MERGED), "cli").declaration == ""


@pytest.mark.parametrize("ledger", [UNDONE, replace(UNDONE, entries=(merged("base"),), transaction=3)])
def test_where_a_restore_undid_all_batches_what_expired_meanwhile_is_a_gap(ledger: Ledger) -> None:
    with pytest.raises(DataLossError, match=r"records from 0 to 4.* lakehouse accept-gap temperatures"):
        planned(EXPIRED, temperatures, ledger)
    assert planned(EXPIRED, ledger=ledger).gap == plan_next_of(ledger, EXPIRED, Bounds()).gap
    plan = plan_next_of(ledger, EXPIRED, Bounds())
    assert plan.gap and plan.gap.ranges == (Range(0, 0, 5), Range(1, 0, 4))
    assert [(part.start, part.end) for part in plan.ranges] == [(5, 9), (4, 9)]


def test_where_a_restore_undid_all_batches_and_nothing_expired_it_begins_at_the_first_record() -> None:
    whole = looked({0: 0, 1: 0}, {0: 9, 1: 9})
    assert planned(whole, temperatures, UNDONE) == plan_batch(whole, None)


@pytest.mark.parametrize("ledger", [Ledger("t"), Ledger("t", entries=(merged("base"),), transaction=1)])
def test_a_table_that_merged_no_record_yet_begins_at_the_earliest_without_a_gap(ledger: Ledger) -> None:
    assert planned(EXPIRED, temperatures, ledger).gap is None


def test_where_no_batch_was_undone_nothing_that_expired_was_ever_merged() -> None:
    """As where a RESTORE undid the base rows alone: the table begins at the earliest record."""
    ledger = Ledger("t", exists=True, transaction=1, undone=frozenset({1}))
    plan = planned(EXPIRED, temperatures, ledger)
    assert plan.gap is None
    assert [(part.start, part.end) for part in plan.ranges] == [(5, 9), (4, 9)]


def test_offsets_alone_decide_nothing_where_rows_are_of_a_topic_that_is_no_more() -> None:
    """Declared after the gap was accepted with another order: every new record would be older than rows there are."""
    anew = looked({0: 0}, {0: 9}, topic_id="other")
    gap = gap_commit(LEDGER, plan_batch(anew, MERGED), "run")
    since = Ledger("t", entries=(Entry(2, datetime.now(UTC), gap, Metrics()),), transaction=gap.number)
    by_offset = replace(temperatures, order="offset")
    assert planned(anew, ledger=since).span == 9
    with pytest.raises(DeclarationError, match=r'of a topic that is no more.*order="timestamp"'):
        planned(anew, by_offset, since)
    assert planned(looked({0: 0, 1: 0}, {0: 9, 1: 9}), by_offset).span == 11


def test_offsets_alone_decide_nothing_until_a_broker_that_was_rolled_back_is_where_it_was() -> None:
    back, by_offset = looked({0: 0, 1: 0}, {0: 2, 1: 9}), replace(temperatures, order="offset")
    gap = gap_commit(LEDGER, plan_batch(back, MERGED), "run")
    since = Ledger("t", entries=(Entry(2, datetime.now(UTC), gap, Metrics()),), transaction=gap.number)
    with pytest.raises(DeclarationError, match="that a broker has lost"):
        planned(looked({0: 0, 1: 0}, {0: 9, 1: 9}), by_offset, since)
    read = since.next_commit("batch", "run").model_copy(update={"progress": MERGED.positions})
    there = Ledger("t", entries=(Entry(3, datetime.now(UTC), read, Metrics()),), transaction=read.number)
    assert planned(looked({0: 0, 1: 0}, {0: 9, 1: 9}), by_offset, there).span == 11


def test_rows_of_another_topic_that_a_restore_took_out_are_in_nobodys_way() -> None:
    """As where the first batch was merged from the wrong broker."""
    by_offset, state = replace(temperatures, order="offset"), looked({0: 0, 1: 0}, {0: 9, 1: 9})
    undone = replace(UNDONE, reread={"wrong/x": {0: 500}}).merged_by_key()
    assert planned(state, by_offset, undone).span == 18
    first = undone.next_commit("batch", "run").model_copy(update={"source": state.source, "progress": {0: 5, 1: 5}})
    since = replace(undone, entries=(Entry(3, datetime.now(UTC), first, Metrics()),), transaction=first.number)
    assert planned(state, by_offset, since).span == 8


WIDENED = looked({0: 0, 1: 0, 2: 5}, {0: 9, 1: 9, 2: 9})


def test_what_expired_of_a_partition_before_it_was_first_seen_stops_or_is_accepted_by_the_declaration() -> None:
    with pytest.raises(DataLossError, match=r"Partition 2: records from 0 to 4.* lakehouse accept-gap temperatures"):
        planned(WIDENED, temperatures)
    plan = planned(WIDENED)
    assert plan.gap and plan.gap.ranges == (Range(2, 0, 5),)
    assert gap_commit(LEDGER, plan, "run").progress == {0: 3, 1: 4, 2: 5}


def test_a_topic_made_anew_begins_at_its_earliest_record_once_the_loss_is_accepted() -> None:
    """It was never followed; a partition that it gets later is."""
    anew = looked({0: 5}, {0: 9}, topic_id="other")
    gap = gap_commit(LEDGER, plan_next_of(LEDGER, anew, Bounds()), "run")
    assert gap.progress == {0: 5}
    since = Ledger("t", entries=(Entry(2, datetime.now(UTC), gap, Metrics()),), transaction=gap.number)
    assert planned(anew, temperatures, since).span == 4
    with pytest.raises(DataLossError, match="Partition 1: records from 0 to 1 were deleted"):
        planned(looked({0: 5, 1: 2}, {0: 9, 1: 2}, topic_id="other"), temperatures, since)


def test_a_topic_that_was_read_before_another_one_names_what_expired_since() -> None:
    """As where a wrong address was accepted, and is corrected."""
    wrong = looked({0: 0}, {0: 9}, cluster_id="wrong")
    gap = gap_commit(LEDGER, plan_next_of(LEDGER, wrong, Bounds()), "run")
    since = Ledger("t", entries=(Entry(2, datetime.now(UTC), gap, Metrics()),), transaction=gap.number)
    back = plan_next_of(since, looked({0: 5, 1: 4, 2: 1}, {0: 9, 1: 9, 2: 3}), Bounds()).gap
    assert back and not back.expired
    assert back.ranges == (Range(0, 0, 0), Range(0, 3, 5), Range(2, 0, 1))
    whole = plan_next_of(since, looked({0: 0, 1: 0}, {0: 9, 1: 9}), Bounds()).gap
    assert whole and whole.ranges == (Range(0, 0, 0),)
