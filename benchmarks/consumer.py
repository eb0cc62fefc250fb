"""A Python consumer that merges with deltalake, without Spark or a JVM."""

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
    """Read the waiting records, keep the newest per key, merge them into their months and commit the offsets."""

    def __init__(self, world: World, uri: str) -> None:
        self._world = world
        self._table = DeltaTable(uri)

    def merge(self) -> None:
        """Merge the waiting records. Open a consumer for each merge; the table stays open."""
        ask(self._world.settings, None, self._merge)

    async def _merge(self, clients: Clients) -> None:
        consumer_options = {"group_id": "deltalake", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        async with clients.open(AIOKafkaConsumer, **consumer_options) as consumer:
            self._upsert(newest_rows(await self._values(consumer)))
            await consumer.commit()

    async def _values(self, consumer: AIOKafkaConsumer) -> list[bytes]:
        table = self._world.table
        partitions = [TopicPartition(table.topic, number) for number in range(table.topic_options.partitions)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        values: list[bytes] = []
        while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                values += [record.value for record in records]
        return values

    def _upsert(self, rows: pa.Table) -> None:
        months = ", ".join(f"'{month}'" for month in pc.unique(rows["observed_month"]).to_pylist())
        condition = f"{SAME_KEY} AND t.observed_month IN ({months})"
        merge = self._table.merge(rows, condition, source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


def newest_rows(values: Iterable[bytes]) -> pa.Table:
    """Return the newest row per key; the records of a key are in order, because they share a partition."""
    newest_readings = {
        (reading["latitude"], reading["longitude"], reading["time"]): reading for reading in map(orjson.loads, values)
    }
    readings = pa.Table.from_pylist(list(newest_readings.values()))
    hours = pc.strptime(readings["time"], "%Y-%m-%dT%H:%M", "us").cast(pa.timestamp("us", "UTC"))
    months = pc.floor_temporal(hours, unit="month").cast(pa.date32())
    coordinates = [readings[name].cast(pa.float64()).cast(_PLACE_TYPE) for name in ("latitude", "longitude")]
    return pa.table(
        [*coordinates, hours, readings["temperature_2m"], months], [*KEY, "temperature_2m", "observed_month"]
    )
