"""Rivals: other ways to merge the same records into the same rows, in turns with ours."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from benchmarks.batches import append, together
from benchmarks.consumer import Consumer
from benchmarks.turns import Measured
from benchmarks.ways import KEY, PlainLoop, Stream
from benchmarks.world import World, new_world
from lakehouse.storage.row_order import merged_layout

RECORDS = 5_000
WARM = 6  # rounds until the session is warm
_HOURS = 40_176  # in the 55 months over which the rows are spread
_TWINS = ("appended", "consumed", "streamed", "streamed_pruned", "streamed_once")
_PLAIN = "plain"
_MERGED = "_record", "_kept"


@dataclass
class Rivals:
    """Who takes turns: each by its name, as what it does in its turn."""

    world: World
    turns: dict[str, Callable[[], object]]

    def round(self, measured: dict[str, Measured]) -> None:
        """Publish once, and let each have its turn; ours is the last but for what derives from it."""
        self.world.publish(RECORDS)
        for name, work in self.turns.items():
            with measured.setdefault(name, Measured()).turn():
                work()


def run(turns: int, rows: int) -> dict[str, Measured]:
    """Measure in turns, each in a table of so many rows. Raises ``ValueError`` where one has other rows than ours."""
    with new_world(rows // _HOURS) as world:
        world.fill(rows)
        _make_twins(world)
        with _rivals(world) as rivals:
            for _ in range(WARM):
                rivals.round({})
            measured: dict[str, Measured] = {}
            for _ in range(turns):
                rivals.round(measured)
        _require_same_rows(world)
    return _summed(measured)


def _summed(found: dict[str, Measured]) -> dict[str, Measured]:
    """Ours and the plain loop as wholes, of the parts that were measured."""
    loop = found["plain loop, no VACUUM"]
    return {
        "append": found["append"],
        "lakehouse": found["lakehouse"],
        "lakehouse with feed and rollup": together(found["lakehouse"], found["derive"]),
        "deltalake": found["deltalake"],
        "foreachBatch": found["foreachBatch"],
        "foreachBatch, months named": found["foreachBatch, months named"],
        "foreachBatch, started each time": found["foreachBatch, started each time"],
        "plain loop": together(loop, found["VACUUM, Spark's settings"]),
        "plain loop, our settings": together(loop, found["VACUUM, our settings"]),
        "plain loop, no VACUUM": loop,
    }


@contextmanager
def _rivals(world: World) -> Iterator[Rivals]:
    plain = PlainLoop(world, _uri(world, _PLAIN))
    once = Stream(world, _uri(world, "streamed_once"))
    with (
        closing(Stream(world, _uri(world, "streamed"))) as stream,
        closing(Stream(world, _uri(world, "streamed_pruned"), pruned=True)) as pruned,
    ):
        yield Rivals(
            world,
            {
                "append": lambda: append(world),
                "deltalake": Consumer(world, _uri(world, "consumed")).merge,
                "foreachBatch": stream.next_batch,
                "foreachBatch, months named": pruned.next_batch,
                "foreachBatch, started each time": once.once,
                "plain loop, no VACUUM": plain.merge,
                "VACUUM, our settings": plain.vacuum,
                "VACUUM, Spark's settings": plain.stock_vacuum,
                "lakehouse": world.merge,
                "derive": world.derive,
            },
        )


def _make_twins(world: World) -> None:
    """Tables of the same rows: in the same partitions, and, for the plain loop, in none."""
    layout = merged_layout(world.table, world.settings)
    rows = world.spark.read.format("delta").load(layout.uri).drop(*_MERGED)
    by_month = rows.repartition("observed_month")
    for name in _TWINS:
        by_month.write.format("delta").partitionBy("observed_month").save(_uri(world, name))
    rows.drop("observed_month").write.format("delta").save(_uri(world, _PLAIN))


def _require_same_rows(world: World) -> None:
    """All have merged the same, but for the one that appends: so many rows, and a sum of the hashes of all."""
    ours = _sum_of_rows(world, world.table.name)
    others = {name: _sum_of_rows(world, name) for name in (*_TWINS[1:], _PLAIN)}
    if differing := [name for name, rows in others.items() if rows != ours]:
        raise ValueError(f"Other rows than ours: {', '.join(differing)}; {ours}, {others}")


def _sum_of_rows(world: World, name: str) -> tuple[object, ...]:
    rows = world.spark.read.format("delta").load(_uri(world, name))
    hashed = f"CAST(xxhash64({', '.join(KEY)}, temperature_2m) AS DECIMAL(38,0))"
    return tuple(rows.selectExpr("count(*)", f"sum({hashed})").collect()[0])


def _uri(world: World, name: str) -> str:
    return world.settings.table_uri(name)
