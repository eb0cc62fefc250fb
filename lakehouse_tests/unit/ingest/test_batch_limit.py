"""How many positions a batch takes at most: what the declaration says, unless somebody says otherwise."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from lakehouse.defs.config import MergeConfig
from lakehouse.errors import DeclarationError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches
from lakehouse.ingest.batches import Request, plan_next
from lakehouse.ingest.replay import in_batches
from lakehouse.kafka import TopicState
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Bounds, Range, SourceId, plan_batch
from lakehouse.settings import Settings

pytestmark = pytest.mark.invariant(12)

HERE = SourceId("kafka", "cluster/topic")
STATE = TopicState("temperatures", HERE, {0: 0, 1: 0}, {0: 900, 1: 300})
TEN = replace(temperatures, max_records=10)


def test_a_declaration_has_a_limit_by_itself() -> None:
    assert temperatures.max_records == 500_000


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None, "10"])
def test_a_limit_that_is_no_count_is_refused(wrong: Any) -> None:
    with pytest.raises(DeclarationError, match="max_records"):
        replace(temperatures, max_records=wrong)


@pytest.mark.parametrize(("asked", "limit"), [(None, 10), (3, 3), (5000, 5000)], ids=["nobody", "less", "more"])
def test_what_somebody_says_wins_over_the_declaration(asked: int | None, limit: int) -> None:
    assert Request(max_records=asked).limit(TEN) == limit


@pytest.mark.parametrize(("asked", "span"), [(None, 10), (3, 3), (5000, 1200)], ids=["nobody", "less", "more"])
def test_the_next_batch_is_planned_within_it(monkeypatch: pytest.MonkeyPatch, asked: int | None, span: int) -> None:
    monkeypatch.setattr(batches, "merged_ledger", lambda *_: Ledger("t"))
    monkeypatch.setattr(batches, "look", lambda *_: STATE)
    assert plan_next(Settings(_env_file=None), TEN, Request(max_records=asked)).span == span


def test_a_run_without_configuration_asks_for_nothing_of_its_own() -> None:
    plan = plan_batch(STATE, None, Bounds())
    assert MergeConfig().request(plan).limit(TEN) == 10
    assert MergeConfig(max_records=7).request(plan).limit(TEN) == 7


def test_a_replay_reads_every_position_once_within_the_limit() -> None:
    whole = plan_batch(STATE, None)
    plans = list(in_batches(whole, 250))
    assert [plan.span for plan in plans] == [250, 250, 250, 250, 200]
    assert {plan.source for plan in plans} == {HERE}
    for partition, end in STATE.end.items():
        parts = [part for plan in plans for part in plan.ranges if part.partition == partition and part.span]
        assert parts[0].start == 0 and parts[-1].end == end
        assert all(before.end == after.start for before, after in pairwise(parts))


def test_nothing_to_replay_is_no_batch() -> None:
    assert list(in_batches(plan_batch(replace(STATE, end={0: 0, 1: 0}), None), 10)) == []
    assert Range(0, 0, 0).span == 0
