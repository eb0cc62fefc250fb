"""The declared start of a new table: looked up once, recorded before the first batch, and never a gap."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakehouse.defs.figures import count_commits
from lakehouse.errors import DataLossError, DeclarationError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import topics
from lakehouse.ingest.gaps import gap_commit, plan_table
from lakehouse.ingest.topics import with_start
from lakehouse.kafka import TopicState
from lakehouse.ledger.accounting import describe_entry
from lakehouse.ledger.audit import audit
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds, lag_of
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.tables import redeclare

SETTINGS = Settings(_env_file=None)
STATE = TopicState("temperatures", SourceId("kafka", "c/t"), {0: 100, 1: 0, 2: 5}, {0: 900, 1: 300, 2: 5})
NEW = Ledger("t")
UNDONE = Ledger("t", exists=True, transaction=2, undone_numbers=frozenset({1, 2}), has_undone_progress=True)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """The first offset of each partition at the looked-up time, as the broker answers; empty before the test."""
    offsets: dict[int, int] = {}

    def look_up(settings: Settings, topic: str, partitions: Any, time: datetime, limit: float) -> Mapping[int, int]:
        assert (topic, [*partitions], time) == ("temperatures", [0, 1, 2], NOON)
        return offsets

    monkeypatch.setattr(topics, "offsets_at", look_up)
    return offsets


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that does not say what the broker answers does not ask it."""
    monkeypatch.setattr(topics, "offsets_at", None)


def plan(declared_start: Any, ledger: Ledger = NEW, state: TopicState = STATE, **options: Any) -> Plan:
    table = redeclare(temperatures, start=declared_start, **options)
    return plan_table(table, with_start(SETTINGS, table, ledger, state), ledger, Bounds())


def ranges(batch_plan: Plan) -> dict[int, tuple[int, int]]:
    return {part.partition: (part.start, part.end) for part in batch_plan.ranges}


def committed(commit: Commit, ledger: Ledger = NEW) -> Ledger:
    """The ledger after one more commit."""
    entry = Entry(ledger.version + 1, NOON, commit, Metrics(source_rows=commit.read, inserted=commit.read))
    entries = (entry, *ledger.entries)
    return replace(ledger, exists=True, version=entry.version, transaction=commit.number, entries=entries)


def begun(declared_start: Any, state: TopicState = STATE) -> Ledger:
    """The ledger of a table whose start is recorded."""
    return committed(gap_commit(NEW, plan(declared_start, state=state), "run"))


@pytest.mark.invariant("2.2", "2.6")
def test_a_start_at_the_end_leaves_out_what_the_topic_has() -> None:
    batch_plan = plan("latest")
    assert batch_plan.left_out == (Range(0, 100, 900), Range(1, 0, 300))
    assert (batch_plan.span, batch_plan.gap, batch_plan.is_idle) == (0, None, False)


@pytest.mark.invariant("2.6")
def test_offsets_are_starts_of_their_partitions_and_the_others_begin_at_their_first_record() -> None:
    batch_plan = plan({0: 250, 2: 5})
    assert batch_plan.left_out == (Range(0, 100, 250),)
    assert ranges(batch_plan) == {0: (250, 900), 1: (0, 300), 2: (5, 5)}


@pytest.mark.invariant("2.6")
def test_offset_0_is_the_first_record_and_no_gap_also_once_it_has_expired() -> None:
    batch_plan = plan({0: 0})
    assert (batch_plan.left_out, batch_plan.gap) == ((), None)
    assert ranges(batch_plan)[0] == (100, 900)


@pytest.mark.invariant("2.6")
@pytest.mark.parametrize(
    ("offsets", "problem"),
    [
        ({0: 901}, "starts at offset 901 of partition 0, but the partition ends at offset 900"),
        ({0: 99}, "starts at offset 99 of partition 0, but the partition begins at offset 100: records before it have"),
        ({1: 5, 3: 0}, "starts at offset 0 of partition 3, but the partition does not exist"),
    ],
)
def test_an_offset_that_the_topic_does_not_have_is_refused(offsets: dict[int, int], problem: str) -> None:
    with pytest.raises(DeclarationError, match=f"Table temperatures {problem}.*Correct start="):
        plan(offsets)
    assert plan(offsets, begun("latest")).span == 0, "a table that has begun ignores its start"


@pytest.mark.invariant("2.6")
@pytest.mark.parametrize("text", ["2026-11-01T12:00:00Z", "2026-11-01T13:00+01:00", NOON])
def test_a_time_is_looked_up_in_the_index_of_the_broker(index: dict[int, int], text: str | datetime) -> None:
    index |= {0: 400, 1: 0}
    batch_plan = plan(text)
    assert ranges(batch_plan) == {0: (400, 900), 1: (0, 300), 2: (5, 5)}
    assert batch_plan.left_out == (Range(0, 100, 400),)


@pytest.mark.invariant("2.6")
def test_a_time_after_the_newest_record_is_the_end(index: dict[int, int]) -> None:
    assert ranges(plan(NOON)) == {0: (900, 900), 1: (300, 300), 2: (5, 5)}


@pytest.mark.invariant("2.6")
def test_a_record_of_an_open_transaction_is_beyond_the_end(index: dict[int, int]) -> None:
    index |= {0: 950}
    assert ranges(plan(NOON))[0] == (900, 900)


@pytest.mark.invariant("2.6")
def test_a_start_is_recorded_once_and_repeated_by_later_commits() -> None:
    ledger = begun({0: 250})
    commit = ledger.entries[0].commit
    assert (commit.kind, commit.progress, commit.gap) == ("start", {0: 250, 1: 0, 2: 5}, ())
    assert commit.left_out == (Range(0, 100, 250),)
    batch_plan = plan({0: 250}, ledger)
    assert (batch_plan.left_out, ranges(batch_plan)[0]) == (None, (250, 900))
    batch = ledger.next_commit("batch", "run").with_fields(
        source=STATE.source, ranges=batch_plan.ranges, progress=dict(batch_plan.progress.positions), read=10
    )
    later_ledger = committed(batch, ledger)
    assert later_ledger.left_out == commit.left_out
    assert all(finding.passed for finding in audit(later_ledger))


@pytest.mark.invariant("2.6", "7.11")
def test_a_table_whose_records_have_many_rows_counts_them_from_its_start() -> None:
    batch_plan = plan({0: 250}, base=None, rows_from="items")
    ledger = committed(gap_commit(NEW, batch_plan, "run"))
    commit = ledger.next_commit("batch", "run").with_fields(
        source=STATE.source, ranges=batch_plan.ranges, progress=dict(batch_plan.progress.positions)
    )
    commit = commit.with_fields(read=950, empty=50, rows_read=1_000, rejected=50)
    assert sum(part.end - part.start for part in batch_plan.ranges) == commit.read
    later_ledger = committed(commit, ledger)
    assert later_ledger.left_out == (Range(0, 100, 250),)
    assert all(finding.passed for finding in audit(later_ledger))
    assert count_commits(later_ledger.entries, later_ledger)["rows_read"] == 1_000


@pytest.mark.invariant("2.6")
@pytest.mark.parametrize("changed_start", ["latest", NOON, {0: 899}, {7: 0}, None])
def test_a_changed_start_has_no_effect_on_a_table_that_has_begun(changed_start: Any) -> None:
    assert ranges(plan(changed_start, begun({0: 250}))) == {0: (250, 900), 1: (0, 300), 2: (5, 5)}


@pytest.mark.invariant("2.6")
def test_a_start_is_looked_up_again_until_it_is_recorded() -> None:
    grown_state = replace(STATE, end={0: 950, 1: 300, 2: 9})
    assert ranges(plan("latest", state=grown_state)) == {0: (950, 950), 1: (300, 300), 2: (9, 9)}
    assert ranges(plan("latest", begun("latest"), grown_state)) == {0: (900, 950), 1: (300, 300), 2: (5, 9)}


@pytest.mark.invariant("2.6")
def test_the_start_of_an_empty_topic_is_recorded_so_that_its_first_records_are_merged() -> None:
    empty_state = replace(STATE, earliest={0: 0}, end={0: 0})
    batch_plan = plan("latest", state=empty_state)
    assert (batch_plan.left_out, batch_plan.is_idle) == ((), False)
    grown_state = replace(empty_state, end={0: 3})
    assert ranges(plan("latest", begun("latest", empty_state), grown_state)) == {0: (0, 3)}


@pytest.mark.invariant("2.2", "2.6")
def test_a_partition_that_is_added_later_begins_at_its_first_record() -> None:
    wider_state = replace(STATE, earliest={**STATE.earliest, 3: 0}, end={**STATE.end, 3: 40})
    assert ranges(plan("latest", begun("latest"), wider_state))[3] == (0, 40)


@pytest.mark.invariant("2.6")
def test_a_topic_that_is_created_again_begins_at_its_first_record() -> None:
    recreated_state = replace(STATE, source=SourceId("kafka", "c/u"))
    ledger = begun("latest")
    with pytest.raises(DataLossError):
        plan("latest", ledger, recreated_state)
    table = redeclare(temperatures, start="latest")
    batch_plan = replace(plan(None, NEW, recreated_state), gap=None)
    gap = gap_commit(ledger, batch_plan, "run")
    assert (gap.kind, gap.left_out, gap.progress) == ("gap", (), {0: 100, 1: 0, 2: 5})
    assert with_start(SETTINGS, table, committed(gap, ledger), recreated_state) == recreated_state


@pytest.mark.invariant("2.6", "9.2")
def test_after_a_restore_to_before_the_start_only_expired_records_after_it_are_a_gap() -> None:
    assert plan("latest", UNDONE).gap is None
    expired_state = replace(STATE, earliest={0: 300, 1: 0, 2: 5})
    assert plan({0: 400, 2: 5}, UNDONE, expired_state).gap is None
    with pytest.raises(DataLossError, match="Partition 0: records from 250 to 299 were deleted"):
        plan({0: 250, 2: 5}, UNDONE, expired_state)
    accepted_plan = plan({0: 250, 1: 40, 2: 5}, UNDONE, expired_state, gaps="accept")
    commit = gap_commit(UNDONE, accepted_plan, "run")
    assert (commit.kind, commit.gap, commit.left_out) == ("start", (Range(0, 250, 300),), (Range(1, 0, 40),))
    assert commit.progress == {0: 300, 1: 40, 2: 5}
    text = describe_entry(committed(commit).entries[0])
    assert text.endswith("partition 1 0 to 40; skipped offsets that are gone, partition 0 250 to 300")


@pytest.mark.invariant("2.6", "9.2")
def test_after_a_restore_a_time_before_the_first_record_may_have_lost_records(index: dict[int, int]) -> None:
    index |= {0: 100, 1: 0, 2: 5}
    with pytest.raises(DataLossError, match="Partition 0: records from 0 to 99 were deleted"):
        plan(NOON, UNDONE)
    index |= {0: 101, 2: 7}
    with pytest.raises(DataLossError, match="^Partition 2: records from 0 to 4 were deleted"):
        plan(NOON, UNDONE)


def test_a_lag_is_counted_from_the_start() -> None:
    table = redeclare(temperatures, start={0: 250})
    assert lag_of(with_start(SETTINGS, table, NEW, STATE), None) == {0: 650, 1: 300, 2: 0}


def test_without_a_declared_start_nothing_is_looked_up_or_recorded() -> None:
    assert with_start(SETTINGS, temperatures, NEW, STATE) is STATE
    assert plan(None).left_out is None


def test_a_commit_of_a_start_is_described() -> None:
    (entry,) = begun({0: 250}).entries
    assert describe_entry(entry) == "start 1 is version 0: left out 150 offsets on purpose, partition 0 100 to 250"
    many_ranges = tuple(Range(partition, 0, 10) for partition in range(3_000))
    text = describe_entry(replace(entry, commit=entry.commit.with_fields(left_out=many_ranges)))
    assert "left out 30,000 offsets on purpose, partition 0 0 to 10, " in text
    assert text.endswith("partition 11 0 to 10, 2,988 more partitions")


def test_each_run_reports_the_offsets_that_its_table_left_out() -> None:
    assert count_commits([], begun({0: 250}))["offsets_left_out"] == 150
    assert "offsets_left_out" not in count_commits([], begun({0: 0}))


@pytest.mark.invariant("2.7")
@given(st.dictionaries(st.integers(0, 2), st.integers(0, 5), max_size=3).filter(bool))
def test_every_offset_of_the_topic_is_left_out_or_planned(offsets: dict[int, int]) -> None:
    state = replace(STATE, earliest={0: 2, 1: 0, 2: 5}, end={0: 9, 1: 5, 2: 5})
    assume(all(position == 0 or position >= state.earliest[partition] for partition, position in offsets.items()))
    batch_plan = plan(offsets, state=state)
    covered_ranges = [*(batch_plan.left_out or ()), *batch_plan.ranges]
    for partition, end in state.end.items():
        covered = [n for part in covered_ranges if part.partition == partition for n in range(part.start, part.end)]
        assert covered == [*range(state.earliest[partition], end)]
