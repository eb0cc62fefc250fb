"""A table that reads several sources: each commit reads one, and carries on the progress of the others."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakehouse.ingest.gaps import gap_commit, plan_next_of
from lakehouse.ingest.rejections import unresolved_sql
from lakehouse.ledger.accounting import differences
from lakehouse.ledger.audit import audit
from lakehouse.ledger.commit_infos import awaited_by_stream, ends_of, find_name, names_of_sources, progress_by_stream
from lakehouse.ledger.commit_values import OtherSource
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import Plan, Progress, Range, SourceId, SourceState
from lakehouse_tests.unit.ledger.test_another_source import add_commit

EU, US, NEW_EU = (SourceId("kafka", f"c/{name}") for name in ("eu", "us", "eu2"))
NAMES = {EU: "orders-eu", US: "orders-us", NEW_EU: "orders-eu"}


def state(source: SourceId, end: int, first: int = 0) -> SourceState:
    return SourceState(NAMES[source], source, {0: first}, {0: end})


def plan(ledger: Ledger, source_state: SourceState) -> Plan:
    return plan_next_of(ledger.of_stream(source_state.stream), source_state, Bounds())


def step(ledger: Ledger, source_state: SourceState) -> Ledger:
    """Return the ledger after one more commit for a source: its start, a gap, or a batch."""
    topic_ledger, next_plan = ledger.of_stream(source_state.stream), plan(ledger, source_state)
    if next_plan.gap or next_plan.left_out is not None:
        return add_commit(ledger, gap_commit(topic_ledger, next_plan, "run"))
    read = {"ranges": next_plan.ranges, "progress": dict(next_plan.progress.positions), "read": next_plan.span}
    commit = topic_ledger.next_commit("batch", "run")
    return add_commit(ledger, commit.with_fields(stream=next_plan.stream, source=next_plan.source, **read))


def steps(ledger: Ledger, *states: SourceState) -> Ledger:
    for source_state in states:
        ledger = step(ledger, source_state)
    return ledger


def positions(ledger: Ledger) -> Iterator[tuple[str, dict[int, int] | None]]:
    parts = progress_by_stream(ledger.newest.commit)
    return ((name, parts[name].progress) for name in sorted(parts))


@pytest.mark.invariant("8.6", "9.2")
def test_a_topic_whose_progress_a_restore_undid_is_remembered_until_it_is_read_again() -> None:
    ledger = replace(steps(Ledger("uri"), state(EU, 3), state(EU, 3)), restored_sources={US.text: NAMES[US]})
    later_ledger = steps(replace(ledger, has_undone_progress=True), *(state(EU, end) for end in range(4, 8)))
    # the part of the log that is read does not reach back to the RESTORE any more
    later_ledger = replace(later_ledger, restored_sources={}, has_undone_progress=False)
    assert plan(later_ledger, state(US, 20, first=5)).gap.ranges == (Range(0, 0, 5),)
    assert f"position.source = '{US.text}'" in unresolved_sql(later_ledger)
    assert plan(later_ledger, SourceState("orders-asia", NEW_EU, {0: 5}, {0: 9})).gap is None, "it was never read"
    read_ledger = steps(later_ledger, state(US, 20, first=5), state(US, 20, first=5))
    assert (read_ledger.undone_sources, read_ledger.of_stream(NAMES[US]).progress) == ({}, Progress(US, {0: 20}))
    assert read_ledger.next_commit("base", "run").undone_sources == {}


@pytest.mark.invariant("2.11")
def test_ends_that_a_query_waits_for_are_carried_on_until_they_are_merged() -> None:
    ledger = steps(Ledger("uri"), state(EU, 3), state(EU, 3), state(US, 2))
    commit = ledger.of_stream(NAMES[EU]).next_commit("wait", "run")
    ledger = add_commit(ledger, commit.with_fields(awaited={EU.text: {0: 7}}))
    ledger = steps(ledger, state(US, 9), state(EU, 6))
    assert awaited_by_stream(ledger.newest.commit) == {NAMES[EU]: {0: 7}}
    ledger = steps(ledger, state(EU, 7))
    assert awaited_by_stream(ledger.newest.commit) == {}
    assert ledger.next_commit("batch", "run").awaited == {}
    assert all(finding.passed for finding in audit(ledger))


@pytest.mark.invariant("2.8")
def test_each_topic_has_its_own_progress_and_is_recorded_before_its_first_batch() -> None:
    ledger = steps(Ledger("uri"), state(EU, 3), state(EU, 3), state(US, 2))
    assert [entry.commit.kind for entry in ledger.entries] == ["start", "batch", "start"]
    assert dict(positions(ledger)) == {"orders-eu": {0: 3}, "orders-us": {0: 0}}
    ledger = steps(ledger, state(US, 2), state(EU, 7))
    assert ledger.of_stream("orders-us").progress == Progress(US, {0: 2})
    assert ledger.of_stream("orders-eu").progress == Progress(EU, {0: 7})
    assert ledger.newest.commit.ranges == (Range(0, 3, 7),)
    assert ends_of(ledger.newest.commit) == {EU.text: {0: 7}, US.text: {0: 2}}
    assert differences(ledger.entries) == []


@pytest.mark.invariant("2.8")
def test_a_topic_that_appears_later_begins_at_its_beginning_and_a_known_one_continues() -> None:
    ledger = steps(Ledger("uri"), state(EU, 3), state(EU, 3))
    new_plan = plan(ledger, state(US, 9, first=4))
    assert (new_plan.ranges, new_plan.gap, new_plan.left_out) == ((Range(0, 4, 9),), None, ())
    assert plan(ledger, state(EU, 5)).ranges == (Range(0, 3, 5),)


@pytest.mark.invariant("1.12", "2.8")
def test_maintenance_and_a_change_of_the_order_of_topics_keep_every_progress() -> None:
    ledger = steps(Ledger("uri"), state(EU, 3), state(EU, 3), state(US, 2), state(US, 2))
    ledger = add_commit(ledger, ledger.next_commit("maintenance", "run"))
    assert dict(positions(ledger)) == {"orders-eu": {0: 3}, "orders-us": {0: 2}}
    assert all(finding.passed for finding in audit(ledger))


@pytest.mark.invariant("1.1", "2.8")
def test_a_table_of_one_topic_continues_as_one_of_several() -> None:
    ledger = Ledger("uri")
    for _ in range(2):
        ledger = step_alone(ledger, state(EU, 3 if ledger.newest is None else 4))
    assert ledger.newest.commit.other_sources == {}
    ledger = steps(ledger, state(US, 2), state(EU, 6))
    assert dict(positions(ledger)) == {"orders-eu": {0: 6}, "orders-us": {0: 0}}
    assert differences(ledger.entries) == []


def step_alone(ledger: Ledger, source_state: SourceState) -> Ledger:
    next_plan = plan_next_of(ledger, source_state, Bounds())
    read = {"ranges": next_plan.ranges, "progress": dict(next_plan.progress.positions), "read": next_plan.span}
    commit = ledger.next_commit("batch", "run")
    return add_commit(ledger, commit.with_fields(stream=next_plan.stream, source=next_plan.source, **read))


@pytest.mark.invariant("9.1", "9.6")
def test_a_topic_that_was_created_again_is_a_gap_of_that_topic_alone() -> None:
    ledger = steps(Ledger("uri"), state(EU, 3), state(EU, 3), state(US, 2), state(US, 2))
    assert plan(ledger, state(US, 5)).gap is None
    new_plan = plan(ledger, state(NEW_EU, 1))
    assert "it was kafka:c/eu and is kafka:c/eu2" in new_plan.gap.facts[0]
    ledger = step(ledger, state(NEW_EU, 1))
    assert ledger.newest.commit.kind == "gap"
    assert ledger.newest.commit.other_sources[EU.text] == OtherSource(stream="orders-eu")
    assert names_of_sources(ledger.newest.commit) == {
        EU.text: "orders-eu",
        US.text: "orders-us",
        NEW_EU.text: "orders-eu",
    }
    ledger = steps(ledger, state(NEW_EU, 1), state(US, 5))
    assert dict(positions(ledger)) == {"orders-eu": {0: 1}, "orders-us": {0: 5}}
    assert find_name(ledger.entries[:1], EU) == "orders-eu"
    assert differences(ledger.entries) == []


@pytest.mark.invariant("7.9", "2.8")
def test_the_audit_finds_a_batch_that_skips_records_of_a_topic_or_loses_the_progress_of_another() -> None:
    ledger = steps(Ledger("uri"), state(EU, 3), state(EU, 3), state(US, 2))
    commit = ledger.of_stream("orders-eu").next_commit("batch", "run")
    jump = {"ranges": (Range(0, 4, 5),), "progress": {0: 5}, "read": 1}
    (difference,) = differences(add_commit(ledger, commit.with_fields(**jump)).entries)
    assert "gap in partition 0, offsets 3 to 3; replay them" in difference.text
    good = {"ranges": (Range(0, 3, 5),), "progress": {0: 5}, "read": 2}
    moved = {US.text: OtherSource(stream="orders-us", progress={0: 1})}
    (difference,) = differences(add_commit(ledger, commit.with_fields(**good, other_sources=moved)).entries)
    assert "carries on a different progress of other topics than version" in difference.text


@pytest.mark.invariant("8.6", "2.8")
def test_rejected_records_beyond_the_progress_of_their_topic_are_pending() -> None:
    ledger = steps(Ledger("uri"), state(EU, 3), state(EU, 3), state(US, 2))
    sql = unresolved_sql(ledger)
    assert "position.source = 'kafka:c/eu' AND NOT ((position.partition = 0 AND position.position < 3))" in sql
    assert "position.source = 'kafka:c/us' AND NOT ((position.partition = 0 AND position.position < 0))" in sql
