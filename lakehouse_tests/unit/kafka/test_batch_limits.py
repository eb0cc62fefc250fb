"""Compressed batches become at most as many bytes as a read allows."""

import tracemalloc
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from lakehouse.kafka.batch_limits import BatchesTooLargeError, batches_limited

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
