"""Text keys in tables without partitions: the cost of finding and replacing rows as the table grows.

Ascending keys are stored together, so the bounds of each file exclude most files, and the newest rows are updated. A
scattered key may be in any file, and updates of random rows touch every file.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import md5
from pathlib import Path
from statistics import median

from benchmarks.batches import add_measurements
from benchmarks.turns import Measurement, rotate
from benchmarks.ways import Form, Stream
from benchmarks.world import World, base_order, new_world
from lakehouse.declaration import Column, StreamTable, Upkeep
from lakehouse.declaration.names import RECORD
from lakehouse.derived.refresh import refresh_changes
from lakehouse.ingest.batches import prepare
from lakehouse.kafka import create_topic, publish
from lakehouse.storage.row_order import merged_layout

RECORDS = 5_000
SIZES = (1_000_000, 10_000_000)
WARM_UP_ROUNDS = 2  # of three batches for each table
_ROWS_PER_FILE = 500_000
_DIGITS = 12
_WAYS = ("lakehouse", "feed", "foreachBatch")
_FORM = Form(("name",), "name STRING, size BIGINT", {"name": "json.name", "size": "json.size"})


class Keys(StrEnum):
    """The order of the keys, and how rows are replaced."""

    ascending = "ascending"
    scattered = "scattered"
    hidden = "scattered, deletion vectors"


class Mix(StrEnum):
    """What the records of a batch do; of ``both``, every second one updates a row."""

    inserts = "inserts"
    updates = "updates"
    both = "both"


@dataclass
class KeyedTable:
    """A table with a text key, its number of rows, and another table with the same rows for ``foreachBatch``.

    The number of rows is also the number of the next row.
    """

    world: World
    keys: Keys
    size: int
    rows: int
    stream: Stream
    chance: random.Random = field(default_factory=lambda: random.Random(57))  # noqa: S311 - no secret

    def fill(self) -> None:
        """Write the rows of both tables; the feed begins after them."""
        world = self.world
        create_topic(world.settings, world.table)
        prepare(world.context)
        refresh_changes(world.context)
        text_sql = f"lpad(CAST(id AS STRING), {_DIGITS}, '0')"
        numbers = world.spark.range(0, self.rows, 1, max(2, self.rows // _ROWS_PER_FILE))
        rows = numbers.selectExpr(f"{f'md5({text_sql})' if self.is_scattered else text_sql} AS name", "id AS size")
        rows.write.format("delta").save(self.stream.uri)
        base_rows = rows.selectExpr("*", f"{base_order()} AS {RECORD}").write.format("delta").mode("append")
        base_rows.option("dataChange", "false").save(self.uri)
        world.derive()

    def publish(self, mix: Mix) -> None:
        """Publish the records of a batch."""
        updates = {Mix.inserts: 0, Mix.updates: RECORDS, Mix.both: RECORDS // 2}[mix]
        inserts = RECORDS - updates
        updatable = range(self.rows) if self.is_scattered else range(self.rows - RECORDS, self.rows)
        numbers = [*self.chance.sample(updatable, updates), *range(self.rows, self.rows + inserts)]
        publish(self.world.settings, self.world.table, (self._line(number) for number in numbers))
        self.rows += inserts

    @property
    def is_scattered(self) -> bool:
        """Whether the key of a row is a hash of its number."""
        return self.keys is not Keys.ascending

    @property
    def uri(self) -> str:
        """The merged table."""
        return merged_layout(self.world.table, self.world.settings).uri

    @property
    def ways(self) -> Mapping[str, tuple[Callable[[], object], str]]:
        """How to merge the records that wait, and into which table, by the name of the way."""
        rival = {"foreachBatch": (self.stream.next_batch, self.stream.uri)} if self.keys is Keys.scattered else {}
        return {"lakehouse": (self.world.merge, self.uri), "feed": (self.world.derive, ""), **rival}

    def _line(self, number: int) -> bytes:
        text = f"{number:0{_DIGITS}d}"
        name = md5(text.encode(), usedforsecurity=False).hexdigest() if self.is_scattered else text
        return json.dumps({"name": name, "size": self.chance.randrange(10**9)}).encode()


@dataclass
class Measured:
    """Batches of one way, mix and table: their times, and the bytes of the files that each writes."""

    times: Measurement = field(default_factory=Measurement)
    sizes: list[int] = field(default_factory=list)

    @contextmanager
    def turn(self, uri: str) -> Iterator[None]:
        """Measure one batch."""
        paths_before = set(_data_files(uri))
        with self.times.turn():
            yield
        self.sizes.append(sum(path.stat().st_size for path in set(_data_files(uri)) - paths_before))


def _data_files(uri: str) -> Iterator[Path]:
    paths = Path(uri).rglob("*") if uri else ()
    return (path for path in paths if "_delta_log" not in path.parts and path.is_file())


Results = dict[tuple[Keys, Mix, int, str], Measured]
"""What was measured, by the keys, the mix, the rows of the table, and the way."""


def run(turns: int, sizes: tuple[int, ...] = SIZES) -> Results:
    """Measure batches of each mix for each table, in turns."""
    with new_world() as world, ExitStack() as streams:
        tables = [_new_table(world, keys, size) for size in sizes for keys in Keys]
        for table in tables:
            table.fill()
            streams.enter_context(closing(table.stream))
        results: Results = {}
        for number in range(WARM_UP_ROUNDS + turns):
            for table in rotate(number, tables):
                _run_round(table, results if number >= WARM_UP_ROUNDS else {})
    return results


def _run_round(table: KeyedTable, results: Results) -> None:
    for mix in Mix:
        table.publish(mix)
        for way, (work, uri) in table.ways.items():
            with results.setdefault((table.keys, mix, table.size, way), Measured()).turn(uri):
                work()


def times(results: Results) -> dict[str, dict[str, Measurement]]:
    """Return the times by the order of the keys and the mix, then by way and rows."""
    rows = dict[str, dict[str, Measurement]]()
    for (keys, mix, size, way), measured in sorted(
        results.items(), key=lambda item: (item[0][:3], _WAYS.index(item[0][3]))
    ):
        of_row = rows.setdefault(f"{keys}, {mix}", {})
        if way == "feed":
            of_row[f"{size:,} rows, with feed"] = add_measurements(of_row[f"{size:,} rows"], measured.times)
        else:
            of_row[f"{size:,} rows" if way == "lakehouse" else f"{size:,} rows, {way}"] = measured.times
    return rows


def bytes_written(results: Results) -> list[dict[str, object]]:
    """Return the megabytes of data files that a batch writes, a row for each order of the keys and mix."""
    rows = dict[str, dict[str, object]]()
    for (keys, mix, size, way), measured in sorted(results.items(), key=lambda item: item[0]):
        if way != "feed":
            name = f"{keys}, {mix}, {way}"
            rows.setdefault(name, {"MB written": name})[f"{size:,} rows"] = f"{median(measured.sizes) / 1e6:.2f}"
    return list(rows.values())


def _new_table(world: World, keys: Keys, size: int) -> KeyedTable:
    name = f"{keys.name}_{size}"
    columns = [
        Column("name", "STRING", required=True, doc="What it is called."),
        Column("size", "BIGINT", doc="How large it is."),
    ]
    table = StreamTable(
        name, name, "Things by name.", columns, key=["name"], upkeep=Upkeep(deletion_vectors=keys is Keys.hidden)
    )
    world = replace(world, table=table)
    stream = Stream(world, world.settings.table_uri(f"{name}_streamed"), form=_FORM)
    return KeyedTable(world, keys, size, size, stream)
