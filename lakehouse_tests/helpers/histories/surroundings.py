"""The environment of a table in a random history: letters to send, a topic with chosen broker times, base files."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from hypothesis import strategies as st

from lakehouse.declaration import FieldIs, Late, StreamTable
from lakehouse.errors import TopicError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import read_topic
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.streams import unique_table
from lakehouse_tests.helpers.histories.model_values import LATE_AFTER, Key, Position, Record, Rules
from lakehouse_tests.helpers.tables.tables import column_of
from lakehouse_tests.helpers.waiting import wait_until

PLACES = [(Decimal("13.000000"), Decimal("77.600006")), (Decimal("51.500000"), Decimal("-0.099991"))]
HOURS = [datetime(2023, 1, 1, 0, tzinfo=UTC), datetime(2023, 1, 31, 23, tzinfo=UTC), datetime(2023, 2, 1, tzinfo=UTC)]
KEYS: list[Key] = [(*place, hour) for place in PLACES for hour in HOURS]
TEMPERATURES = [-5.5, 0.0, 20.0, 20.25]
HOT = 80.0
DELAYS = [timedelta(hours=hours) for hours in (0, 1, 2, 26)] + [LATE_AFTER, LATE_AFTER + timedelta(minutes=1)]
RULES = [Rules(), Rules(hottest=100.0), Rules(rejects_late=False), Rules(hottest=100.0, rejects_late=False)]
RULES += [Rules(null_erases=True), Rules(hottest=100.0, rejects_late=False, null_erases=True)]
RULES += [Rules(filters_types=True), Rules(filters_types=True, hottest=100.0, rejects_late=False)]
IS_WEATHER = FieldIs("type", ["weather"])
PLACEHOLDER = -999.0
NULLS = ("-999",)
Ways = Literal["null", "missing", "placeholder"]
MALFORMED: dict[str, bytes | None] = {
    "tombstone": None,
    "truncated": b'{"latitude": 13.0',
    "not_an_object": b"[1]",
    "invalid_utf8": b'{"latitude": "\xff"}',
}


@dataclass(frozen=True)
class Letter:
    """A record to send: a row, or the reason why it is malformed; the broker receives it after ``delay``.

    ``without`` is the form of a missing temperature.
    """

    key: Key
    temperature: float | None
    delay: timedelta
    without: Ways = "null"
    malformed: str | None = None
    deletes: bool = False
    truncates: bool = False
    is_other_type: bool = False

    @property
    def broker_time(self) -> datetime:
        return self.key[2] + self.delay

    def rows(self, partition: int, offset: int) -> tuple[Record, ...]:
        """Return what the model knows of the letter at this position."""
        record = self.as_record(partition, offset, self.broker_time)
        return (replace(record, is_other_type=self.is_other_type and not self.malformed),)

    def as_record(self, partition: int, offset: int, broker_time: datetime, place: Position = ()) -> Record:
        return Record(
            partition=partition,
            offset=offset,
            broker_time=broker_time,
            key=None if self.malformed else self.key,
            temperature=self.temperature,
            malformed=self.malformed,
            says_null=self.temperature is None and self.without == "null",
            deletes=self.deletes and not self.malformed and not self.truncates,
            truncates=self.truncates and not self.malformed,
            place=place,
        )

    @property
    def value(self) -> bytes | None:
        if self.malformed:
            return MALFORMED[self.malformed]
        latitude, longitude, hour = self.key
        fields: dict[str, Any] = {"type": "other" if self.is_other_type else "weather"}
        if self.truncates:
            return json.dumps({**fields, "operation": "TRUNCATE"}).encode()
        fields |= {"latitude": float(latitude), "longitude": float(longitude), "time": f"{hour:%Y-%m-%dT%H:%M}"}
        if self.deletes:
            return json.dumps({**fields, "operation": "DELETE"}).encode()
        if self.temperature is not None or self.without == "null":
            fields["temperature_2m"] = self.temperature
        elif self.without == "placeholder":
            fields["temperature_2m"] = PLACEHOLDER
        return json.dumps(fields).encode()


letters = st.builds(
    Letter,
    st.sampled_from(KEYS),
    st.sampled_from([None, *TEMPERATURES, *TEMPERATURES, HOT]),
    st.sampled_from(DELAYS),
    st.sampled_from(get_args(Ways)),
    st.sampled_from([None] * 9 + list(MALFORMED)),
    is_other_type=st.sampled_from([False] * 4 + [True]),
)


def declare_table(rules: Rules, like: StreamTable | None = None) -> StreamTable:
    """Declare the temperatures table with rules of the model; ``like`` is a table whose names it keeps."""
    table = like or unique_table(partitions=2)
    column = replace(column_of(temperatures, "temperature_2m"), between=(-100, rules.hottest))
    column = replace(column, null_values=NULLS, null_erases=rules.null_erases)
    late = Late("observed_at", LATE_AFTER, "reject" if rules.rejects_late else "accept")
    where = IS_WEATHER if rules.filters_types else None
    return replace(table, columns=[*temperatures.record_columns[:3], column], late=late, where=where)


def make_topic(settings: Settings, topic: str, partitions: int, replicas: int = 1) -> None:
    """Create a topic in which the producer sets the broker time of a record."""
    configs = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
    new_topic = NewTopic(topic, partitions, replicas, topic_configs=configs)
    with_client(AIOKafkaAdminClient, settings, lambda admin: admin.create_topics([new_topic]))
    assert wait_until(lambda: _partitions_of(settings, topic) == partitions, 120)


def _partitions_of(settings: Settings, topic: str) -> int:
    """Return the number of partitions, which is 0 until the broker lists the new topic."""
    try:
        return len(read_topic(settings, topic).end)
    except TopicError:
        return 0


class Mail(Protocol):
    """Something to send: a letter, or a packet of letters."""

    @property
    def value(self) -> bytes | None: ...

    @property
    def broker_time(self) -> datetime: ...

    def rows(self, partition: int, offset: int) -> tuple[Record, ...]:
        """Return what the model knows of it at this position."""
        ...


def post(settings: Settings, topic: str, partition: int, mail: Sequence[Mail]) -> list[tuple[Record, ...]]:
    """Send mail to a partition in order; return the rows of each record."""

    async def run() -> list[Any]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers(settings), linger_ms=5)
        await producer.start()
        try:
            futures = [
                await producer.send(topic, item.value, b"key", partition, int(item.broker_time.timestamp() * 1000))
                for item in mail
            ]
            return [await future for future in futures]
        finally:
            await producer.stop()

    sent = zip(mail, asyncio.run(run()), strict=True)
    return [item.rows(partition, metadata.offset) for item, metadata in sent]


def write_base(folder: Path, values: dict[Key, float | None]) -> Path:
    """Write one base file per place."""
    for number, (latitude, longitude) in enumerate(PLACES):
        rows = [(hour, value) for (*place, hour), value in values.items() if tuple(place) == (latitude, longitude)]
        if not rows:
            continue
        archive = {
            "latitude": float(latitude),
            "longitude": float(longitude),
            "timezone": "GMT",
            "utc_offset_seconds": 0,
            "hourly_units": {"time": "iso8601", "temperature_2m": "°C"},
            "hourly": {
                "time": [f"{hour:%Y-%m-%dT%H:%M}" for hour, _ in rows],
                "temperature_2m": [value for _, value in rows],
            },
        }
        (folder / f"place-{number}.json").write_text(json.dumps(archive, ensure_ascii=False), encoding="utf-8")
    return folder
