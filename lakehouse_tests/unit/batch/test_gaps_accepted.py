"""Which gaps a declaration may accept by itself: what retention removed from the front of a partition, nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.batch.gaps import gap_commit, plan_table
from lakehouse.delta.ledger import Ledger
from lakehouse.errors import DataLossError
from lakehouse.tables.temperatures import temperatures
from lakehouse.topic.offsets import Bounds, Incarnation, Plan, Progress, Range, TopicState, plan_batch

ACCEPTING = replace(temperatures, gaps="accept")
MERGED = Progress(Incarnation("c", "t"), {0: 3, 1: 4})


def looked(earliest: dict[int, int], end: dict[int, int], **changes: Any) -> TopicState:
    return TopicState("readings", Incarnation(**{"cluster_id": "c", "topic_id": "t"} | changes), earliest, end)


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


def planned(state: TopicState, table: Any = ACCEPTING) -> Plan:
    return plan_table(table, state, MERGED, Bounds())


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
