"""Partitions: what a batch over many partitions of a topic costs, relative to a batch over one."""

from dataclasses import replace

from benchmarks.turns import Measurement, rotate
from benchmarks.world import new_worlds
from lakehouse.declaration import Topic

RECORDS = 5_000
COUNTS = (1, 12, 200)
_ROWS, _PLACES = 240_000, 323
_WARM_UP_ROUNDS = 3


def run(turns: int) -> dict[str, Measurement]:
    """Measure batches in turns; return measurements by the number of partitions."""
    names = {count: f"{count} partition{'s' if count > 1 else ''}" for count in COUNTS}
    measurements = {name: Measurement() for name in names.values()}
    with new_worlds(list(names.values()), _PLACES) as worlds:
        for count, name in names.items():
            worlds[name].table = replace(worlds[name].table, source=Topic(worlds[name].table.topic, partitions=count))
            worlds[name].fill(_ROWS)
        for number in range(_WARM_UP_ROUNDS + turns):
            for name in rotate(number, names.values()):
                worlds[name].publish(RECORDS)
                measurement = measurements[name] if number >= _WARM_UP_ROUNDS else Measurement()
                with measurement.turn():
                    worlds[name].merge()
    return measurements
