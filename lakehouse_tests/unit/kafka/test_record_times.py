"""The time that the broker looks up: never before the one that was asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from aiokafka.structs import OffsetAndTimestamp, TopicPartition

from lakehouse.kafka import record_times
from lakehouse.kafka.record_times import offsets_at
from lakehouse.settings import Settings

SETTINGS = Settings(_env_file=None)


class Index:
    """The time index of a broker with one record in partition 0; it keeps what it was asked for."""

    def __init__(self) -> None:
        self.milliseconds: set[int] = set()

    @asynccontextmanager
    async def open(self, *_: Any, **__: Any) -> Any:
        yield self

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        self.milliseconds |= {*times.values()}
        return {part: None if part.partition else OffsetAndTimestamp(7, 0) for part in times}

    def ask(self, _settings: Settings, _limit: float, question: Callable[[Any], Awaitable[Any]]) -> Any:
        return asyncio.run(question(self))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("time", "milliseconds"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2025, 10, 31, 22, 40, 0, 1_000, UTC), 1_761_950_400_001),
        (datetime(2025, 10, 31, 22, 40, 0, 1_001, UTC), 1_761_950_400_002),
        (datetime(2025, 10, 31, 23, 40, tzinfo=timezone(timedelta(hours=1))), 1_761_950_400_000),
        (datetime.max.replace(tzinfo=UTC), 253_402_300_800_000),
    ],
)
def test_a_time_is_rounded_up_to_milliseconds(
    monkeypatch: pytest.MonkeyPatch, time: datetime, milliseconds: int
) -> None:
    index = Index()
    monkeypatch.setattr(record_times, "ask", index.ask)
    assert offsets_at(SETTINGS, "readings", [0, 1], time) == {0: 7}, "a partition without such a record is left out"
    assert index.milliseconds == {milliseconds}
