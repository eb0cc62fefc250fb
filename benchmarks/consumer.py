"""A consumer in Python that merges with deltalake: no Spark, no JVM."""

from collections.abc import Iterable

import orjson
import pyarrow as pa
from aiokafka import AIOKafkaConsumer, TopicPartition
from deltalake import DeltaTable
from pyarrow import compute as pc

from benchmarks.ways import KEY, SAME_KEY
from benchmarks.world import World
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask

_PLACE_TYPE = pa.decimal128(9, 6)


class Consumer:
    """Reads what waits, keeps the newest of a key, merges with the months named, then commits its offsets."""

    def __init__(self, world: World, uri: str) -> None:
        self._world = world
        self._table = DeltaTable(uri)

    def merge(self) -> None:
        """Merge what waits; the consumer is opened for it, the table stays open."""
        ask(self._world.settings, None, self._merge)

    async def _merge(self, clients: Clients) -> None:
        own = {"group_id": "deltalake", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        async with clients.open(AIOKafkaConsumer, **own) as consumer:
            self._upsert(newest_rows(await self._values(consumer)))
            await consumer.commit()

    async def _values(self, consumer: AIOKafkaConsumer) -> list[bytes]:
        table = self._world.table
        parts = [TopicPartition(table.topic, number) for number in range(table.partitions)]
        consumer.assign(parts)
        ends = await consumer.end_offsets(parts)
        values: list[bytes] = []
        while any([await consumer.position(part) < ends[part] for part in parts]):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                values += [record.value for record in records]
        return values

    def _upsert(self, rows: pa.Table) -> None:
        months = ", ".join(f"'{month}'" for month in pc.unique(rows["observed_month"]).to_pylist())
        same = f"{SAME_KEY} AND t.observed_month IN ({months})"
        merge = self._table.merge(rows, same, source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


def newest_rows(values: Iterable[bytes]) -> pa.Table:
    """Rows of records, the newest of each key: those of a key come in order, as they share a partition."""
    newest = {(each["latitude"], each["longitude"], each["time"]): each for each in map(orjson.loads, values)}
    told = pa.Table.from_pylist(list(newest.values()))
    hour = pc.strptime(told["time"], "%Y-%m-%dT%H:%M", "us").cast(pa.timestamp("us", "UTC"))
    month = pc.floor_temporal(hour, unit="month").cast(pa.date32())
    places = [told[name].cast(pa.float64()).cast(_PLACE_TYPE) for name in ("latitude", "longitude")]
    return pa.table([*places, hour, told["temperature_2m"], month], [*KEY, "temperature_2m", "observed_month"])
