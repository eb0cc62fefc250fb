"""Deletes: the cost of a merge into a table that declares them, without and with deletes in the batch."""

import json
from dataclasses import replace

from benchmarks.batches import ROWS, WARM_UP_ROUNDS
from benchmarks.turns import Measurement, rotate
from benchmarks.world import World, new_worlds
from lakehouse.declaration import Deletes, FieldIs

BASELINE = "no deletes declared"
_WAYS = (BASELINE, "declared, none in the batch", "a tenth of the batch deletes")
_DELETED = FieldIs("operation", ["DELETE"])


class DeletingWorld(World):
    """A world in which every tenth record deletes a row."""

    def line(self, number: int, months: int) -> bytes:
        """Return a record; every tenth one deletes the row that it would update."""
        line = super().line(number, months)
        return line if number % 10 else json.dumps({**json.loads(line), "operation": "DELETE"}).encode()


def run(turns: int, sizes: tuple[int, ...] = (5, 5_000)) -> dict[str, dict[str, Measurement]]:
    """Measure each batch size in turns; return measurements by size, then by table."""
    with new_worlds(_WAYS, places=6) as worlds:
        contenders = {name: _declare(name, world) for name, world in worlds.items()}
        for world in contenders.values():
            world.fill(ROWS)
        for _ in range(WARM_UP_ROUNDS):
            _run_round(contenders, 10, {}, 0)
        measurements: dict[str, dict[str, Measurement]] = {}
        for size in sizes:
            of_size = measurements[f"{size:,}"] = {name: Measurement() for name in contenders}
            _run_round(contenders, size, {}, 0)
            for number in range(turns):
                _run_round(contenders, size, of_size, number)
        return measurements


def _declare(name: str, world: World) -> World:
    if name == BASELINE:
        return world
    kind = World if name == _WAYS[1] else DeletingWorld
    table = replace(world.table, deletes=Deletes(when=_DELETED))
    return kind(world.settings, world.spark, world.places, table)


def _run_round(contenders: dict[str, World], size: int, measurements: dict[str, Measurement], number: int) -> None:
    for name in rotate(number, contenders):
        contenders[name].publish(size)
        with measurements.get(name, Measurement()).turn():
            contenders[name].merge()
