"""What a micro-batch has before and after the progress of a table, in words."""

from datetime import UTC, datetime

import pytest

from lakehouse.errors import TopicError
from lakehouse.ingest import micro_batches
from lakehouse.ingest.micro_batches import (
    MicroBatchPart,
    describe_earlier,
    describe_merged,
    find_earlier,
    find_waiting,
    require_same_records,
)
from lakehouse.kafka import TopicState
from lakehouse.kafka.record_times import FirstRecord
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.settings import Settings

SETTINGS = Settings(kafka_bootstrap_servers="127.0.0.1:1", _env_file=None)
SOURCE = SourceId("kafka", "c/1")
PLAN = Plan("t", SOURCE, (Range(0, 10, 20), Range(1, 5, 5), Range(2, 0, 8)))
STATE = TopicState("t", SOURCE, {0: 0, 1: 0, 2: 0}, {0: 20, 1: 5, 2: 8})


def part(partition: int, start: int, end: int) -> MicroBatchPart:
    return MicroBatchPart(Range(partition, start, end), 0)


def test_offsets_before_the_progress_are_described_up_to_it() -> None:
    text = describe_merged(PLAN, [part(0, 8, 20), part(1, 0, 3), part(2, 2, 8)])
    assert text == "partition 0: offsets 8 to 9; partition 1: offsets 0 to 2"
    assert describe_merged(PLAN, [part(0, 10, 20)]) == ""


def test_only_ranges_with_a_record_come_before_a_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [part(0, 12, 20), part(1, 5, 9), part(2, 3, 8)]
    assert find_earlier(PLAN, parts) == [Range(0, 10, 12), Range(2, 0, 3)]
    monkeypatch.setattr(micro_batches, "first_records", lambda *_: {2: FirstRecord(None, producer_time=True)})
    assert describe_earlier(SETTINGS, PLAN, parts) == "partition 2: offsets 0 to 2"


def test_records_of_an_open_transaction_before_a_micro_batch_are_not_asked_for() -> None:
    assert find_earlier(PLAN, [part(0, 25, 30), part(1, 7, 9)]) == [Range(0, 10, 20)]


def test_a_time_that_spark_shifts_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    time = datetime(1526, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(micro_batches, "first_records", lambda *_: {0: FirstRecord(time, producer_time=True)})
    require_same_records(SETTINGS, STATE, [part(0, 0, 20)])


def test_nobody_is_asked_if_a_micro_batch_begins_at_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro_batches, "first_records", None)
    assert describe_earlier(SETTINGS, PLAN, [part(0, 10, 20)]) == ""


def test_ends_beyond_the_committed_records_wait() -> None:
    assert find_waiting(STATE, {0: 20, 1: 7}) == {1: 7}


def test_a_record_that_the_topic_does_not_hold_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_ranges: list[Range] = []

    def first_records(_: object, __: str, ranges: list[Range]) -> dict[int, FirstRecord]:
        asked_ranges.extend(ranges)
        return {0: FirstRecord(micro_batches._EPOCH, producer_time=False)}

    monkeypatch.setattr(micro_batches, "first_records", first_records)
    require_same_records(SETTINGS, STATE, [part(0, 0, 20), part(1, 0, 7)])
    assert asked_ranges == [Range(0, 19, 20)]
    with pytest.raises(TopicError, match="another record at offset 19 of partition 0"):
        require_same_records(SETTINGS, STATE, [MicroBatchPart(Range(0, 0, 20), 1)])
