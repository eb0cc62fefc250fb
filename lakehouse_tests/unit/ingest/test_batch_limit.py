"""The maximum number of positions in a batch: the limit of the declaration, unless a request overrides it."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from lakehouse.defs.assets import MergeConfig
from lakehouse.defs.waiting import Waiting
from lakehouse.errors import DeclarationError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches
from lakehouse.ingest.batches import Request, plan_next
from lakehouse.ingest.replay import split_into_batches
from lakehouse.kafka import TopicState
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds, plan_batch
from lakehouse.ledger.positions import Range, SourceId
from lakehouse.settings import Settings
from lakehouse.sources import table_sources

SOURCE = SourceId("kafka", "cluster/topic")
STATE = TopicState("temperatures", SOURCE, {0: 0, 1: 0}, {0: 900, 1: 300})
LIMITED_TABLE = replace(temperatures, max_records=10)


def test_a_declaration_has_a_default_limit() -> None:
    assert temperatures.max_records == 500_000


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None, "10"])
def test_a_limit_must_be_a_positive_whole_number(limit: Any) -> None:
    with pytest.raises(DeclarationError, match="max_records"):
        replace(temperatures, max_records=limit)


@pytest.mark.invariant("12.9")
@pytest.mark.parametrize(("requested_limit", "limit"), [(None, 10), (3, 3), (5000, 5000)], ids=["none", "less", "more"])
def test_a_request_overrides_the_limit_of_the_declaration(requested_limit: int | None, limit: int) -> None:
    assert Request(max_records=requested_limit).limit(LIMITED_TABLE) == limit


@pytest.mark.invariant("12.9")
@pytest.mark.parametrize(("requested_limit", "span"), [(None, 10), (3, 3), (5000, 1200)], ids=["none", "less", "more"])
def test_the_next_batch_is_planned_within_the_limit(
    monkeypatch: pytest.MonkeyPatch, requested_limit: int | None, span: int
) -> None:
    monkeypatch.setattr(batches, "merged_ledger", lambda *_: Ledger("t"))
    monkeypatch.setattr(table_sources, "read_topics", lambda *_, **__: [STATE])
    assert plan_next(Settings(_env_file=None), LIMITED_TABLE, Request(max_records=requested_limit)).span == span


@pytest.mark.invariant("12.9")
def test_a_run_without_configuration_uses_the_limit_of_the_declaration() -> None:
    waiting = Waiting(((STATE, plan_batch(STATE, None, Bounds())),))
    assert MergeConfig().request(LIMITED_TABLE, waiting).limit(LIMITED_TABLE) == 10
    assert MergeConfig(max_records=7).request(LIMITED_TABLE, waiting).limit(LIMITED_TABLE) == 7


@pytest.mark.invariant("12.9")
def test_a_replay_reads_every_position_once_within_the_limit() -> None:
    plans = list(split_into_batches(STATE, plan_batch(STATE, None), 250))
    assert [plan.span for plan in plans] == [250, 250, 250, 250, 200]
    assert {plan.source for plan in plans} == {SOURCE}
    for partition, end in STATE.end.items():
        ranges = [part for plan in plans for part in plan.ranges if part.partition == partition and part.span]
        assert ranges[0].start == 0 and ranges[-1].end == end
        assert all(before.end == after.start for before, after in pairwise(ranges))


def test_an_empty_plan_has_no_batch() -> None:
    assert list(split_into_batches(STATE, plan_batch(replace(STATE, end={0: 0, 1: 0}), None), 10)) == []
    assert Range(0, 0, 0).span == 0
