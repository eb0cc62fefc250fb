"""Keys that are text, in tables without partitions: what it costs to find rows by them as the table grows.

Keys that ascend lie together, and the bounds of each file tell where; scattered ones may lie in any.
"""

import json
from dataclasses import dataclass, replace
from hashlib import md5

from benchmarks.turns import Measured, in_turn
from benchmarks.world import World, base_order, new_world
from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.ingest.batches import prepare
from lakehouse.kafka import create_topic, publish
from lakehouse.storage.row_order import merged_layout

RECORDS = 5_000
SIZES = (1_000_000, 10_000_000)
WARM = 6  # rounds until the session is warm
_ROWS_OF_A_FILE = 500_000
_DIGITS = 12


@dataclass
class Keyed:
    """A table of so many rows by a text, and the number of the next one that comes."""

    world: World
    scattered: bool
    rows: int

    def fill(self) -> None:
        """Give the table its rows, as base rows are."""
        world = self.world
        create_topic(world.settings, world.table)
        prepare(world.context)
        text = f"lpad(CAST(id AS STRING), {_DIGITS}, '0')"
        numbers = world.spark.range(0, self.rows, 1, max(2, self.rows // _ROWS_OF_A_FILE))
        rows = numbers.selectExpr(
            f"{f'md5({text})' if self.scattered else text} AS name",
            "id AS size",
            f"{base_order()} AS {RECORD}",
        )
        rows.write.format("delta").mode("append").save(merged_layout(world.table, world.settings).uri)

    def merge(self, measured: Measured) -> None:
        """Merge records of which half update the newest rows, and half bring one."""
        first = self.rows - RECORDS // 2
        lines = (self._line(number) for number in range(first, first + RECORDS))
        publish(self.world.settings, self.world.table, lines)
        self.rows += RECORDS // 2
        with measured.turn():
            self.world.merge()

    def _line(self, number: int) -> bytes:
        text = f"{number:0{_DIGITS}d}"
        name = md5(text.encode(), usedforsecurity=False).hexdigest() if self.scattered else text
        return json.dumps({"name": name, "size": number}).encode()


def run(turns: int) -> dict[str, dict[str, Measured]]:
    """Measure batches into tables of each size, in turns; by how the keys lie, then by size."""
    with new_world() as world:
        tables = {
            (scattered, size): Keyed(replace(world, table=_table(scattered, size)), scattered, size)
            for scattered in (False, True)
            for size in SIZES
        }
        for table in tables.values():
            table.fill()
        measured = {which: Measured() for which in tables}
        for number in range(WARM + turns):
            for which, table in in_turn(number, tables.items()):
                table.merge(measured[which] if number >= WARM else Measured())
    return {
        "scattered" if scattered else "ascending": {f"{size:,} rows": measured[scattered, size] for size in SIZES}
        for scattered in (False, True)
    }


def _table(scattered: bool, size: int) -> StreamTable:
    name = f"{'scattered' if scattered else 'ascending'}_{size}"
    columns = [
        Column("name", "STRING", required=True, doc="What it is called."),
        Column("size", "BIGINT", doc="How large it is."),
    ]
    return StreamTable(name, name, "Things by name.", columns, key=["name"])
