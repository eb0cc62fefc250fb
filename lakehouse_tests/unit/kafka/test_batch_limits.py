"""Compressed batches become at most as many bytes as a read allows."""

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from lakehouse.errors import TopicError
from lakehouse.kafka import read, record_times
from lakehouse.kafka.newest_records import BatchesTooLargeError, batches_limited
from lakehouse.kafka.read import cut_around
from lakehouse.kafka.record_times import FirstRecord, first_records
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.settings import Settings

SETTINGS = Settings(_env_file=None)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
PART = 100_000


def batch(codec: str, count: int = 20) -> bytes:
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, 10**9)
    for offset in range(count):
        builder.append(offset, timestamp=0, key=None, value=bytes([offset]) * PART, headers=[])
    return bytes(builder.build())


def values(*batches: bytes) -> list[Any]:
    records, found_values = MemoryRecords(b"".join(batches)), list[Any]()
    while records.has_next():
        found_values += [record.value for record in records.next_batch()]
    return found_values


@pytest.mark.parametrize("codec", CODECS)
def test_batches_within_the_limit_are_read_as_ever(codec: str) -> None:
    expected_values = values(batch(codec), batch(codec))
    with batches_limited(60 * PART):
        assert values(batch(codec), batch(codec)) == expected_values


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
@pytest.mark.invariant("8.11")
def test_batches_beyond_the_limit_are_not_read(codec: str) -> None:
    with pytest.raises(BatchesTooLargeError), batches_limited(30 * PART):
        values(batch(codec), batch(codec))
    with pytest.raises(BatchesTooLargeError), batches_limited(PART // 10):
        values(batch(codec))
    assert len(values(batch(codec), batch(codec))) == 40, "without a limit"


def test_a_batch_that_becomes_a_thousand_times_as_many_bytes_is_read_only_up_to_the_limit() -> None:
    bombs = {codec: batch(codec, 200) for codec in ("gzip", "zstd")}
    for bomb in bombs.values():
        tracemalloc.start()
        with pytest.raises(BatchesTooLargeError), batches_limited(10 * PART):
            values(bomb)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100 * PART


def test_a_limit_for_each_batch_is_not_one_for_all() -> None:
    with batches_limited(21 * PART, each=True):
        for _ in range(3):
            assert len(values(batch("gzip"))) == 20
        with pytest.raises(BatchesTooLargeError):
            values(batch("gzip", 30))
        assert len(values(batch("gzip"))) == 20, "the next one"


class Bombed:
    """A broker, and a client of it, whose next batch has more bytes than a batch may have."""

    def __init__(self) -> None:
        self.assign = self.seek = lambda *_: None

    @asynccontextmanager
    async def open(self, *_: Any, **__: Any) -> Any:
        yield self

    async def position(self, _: Any) -> int:
        return 7

    async def getmany(self, *_: Any, **__: Any) -> Any:
        return values(batch("gzip"))

    def ask(self, _settings: Settings, _limit: float, question: Callable[[Any], Awaitable[Any]]) -> Any:
        return asyncio.run(question(self))  # type: ignore[arg-type]


@pytest.mark.invariant("8.11")
def test_a_search_around_timeless_records_ends_at_a_batch_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "LARGEST_BATCH", 10 * PART)
    monkeypatch.setattr(read, "ask", Bombed().ask)
    plan = Plan("t", SourceId("topic", "a"), (Range(0, 7, 9),))
    with pytest.raises(TopicError, match=r"partition 0 from offset 7 on.*in a compressed batch that has more than"):
        cut_around(SETTINGS, plan, "lakehouse merge t")


@pytest.mark.invariant("8.11")
def test_the_time_of_a_first_record_in_a_batch_that_is_too_large_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_times, "LARGEST_BATCH", 10 * PART)
    monkeypatch.setattr(record_times, "ask", Bombed().ask)
    assert first_records(SETTINGS, "t", [Range(0, 7, 9)]) == {0: FirstRecord(None, producer_time=True)}
