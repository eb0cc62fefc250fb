"""Text keys in tables without partitions: the cost of finding rows as the table grows.

Ascending keys are stored together, so the bounds of each file exclude most files. A scattered key may be in any file.
"""

import json
from dataclasses import dataclass, replace
from hashlib import md5

from benchmarks.turns import Measurement, rotate
from benchmarks.world import World, base_order, new_world
from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.ingest.batches import prepare
from lakehouse.kafka import create_topic, publish
from lakehouse.storage.row_order import merged_layout

RECORDS = 5_000
SIZES = (1_000_000, 10_000_000)
WARM_UP_ROUNDS = 6  # rounds until the session is warm
_ROWS_PER_FILE = 500_000
_DIGITS = 12


@dataclass
class KeyedTable:
    """A table with a text key and its number of rows, which is also the number of the next row."""

    world: World
    scattered: bool
    rows: int

    def fill(self) -> None:
        """Write the rows of the table, as base rows."""
        world = self.world
        create_topic(world.settings, world.table)
        prepare(world.context)
        text_sql = f"lpad(CAST(id AS STRING), {_DIGITS}, '0')"
        numbers = world.spark.range(0, self.rows, 1, max(2, self.rows // _ROWS_PER_FILE))
        rows = numbers.selectExpr(
            f"{f'md5({text_sql})' if self.scattered else text_sql} AS name",
            "id AS size",
            f"{base_order()} AS {RECORD}",
        )
        rows.write.format("delta").mode("append").save(merged_layout(world.table, world.settings).uri)

    def merge(self, measurement: Measurement) -> None:
        """Merge records of which half update the newest rows and half insert new ones."""
        first = self.rows - RECORDS // 2
        lines = (self._line(number) for number in range(first, first + RECORDS))
        publish(self.world.settings, self.world.table, lines)
        self.rows += RECORDS // 2
        with measurement.turn():
            self.world.merge()

    def _line(self, number: int) -> bytes:
        text = f"{number:0{_DIGITS}d}"
        name = md5(text.encode(), usedforsecurity=False).hexdigest() if self.scattered else text
        return json.dumps({"name": name, "size": number}).encode()


def run(turns: int) -> dict[str, dict[str, Measurement]]:
    """Measure batches for each table size, in turns; return measurements by order of the keys, then by size."""
    with new_world() as world:
        tables = {
            (scattered, size): KeyedTable(replace(world, table=_table(scattered, size)), scattered, size)
            for scattered in (False, True)
            for size in SIZES
        }
        for table in tables.values():
            table.fill()
        measurements = {variant: Measurement() for variant in tables}
        for number in range(WARM_UP_ROUNDS + turns):
            for variant, table in rotate(number, tables.items()):
                table.merge(measurements[variant] if number >= WARM_UP_ROUNDS else Measurement())
    return {
        "scattered" if scattered else "ascending": {f"{size:,} rows": measurements[scattered, size] for size in SIZES}
        for scattered in (False, True)
    }


def _table(scattered: bool, size: int) -> StreamTable:
    name = f"{'scattered' if scattered else 'ascending'}_{size}"
    columns = [
        Column("name", "STRING", required=True, doc="What it is called."),
        Column("size", "BIGINT", doc="How large it is."),
    ]
    return StreamTable(name, name, "Things by name.", columns, key=["name"])
