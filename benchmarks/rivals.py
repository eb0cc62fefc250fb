"""Rivals: other ways to merge the same records into the same rows, in turns with lakehouse."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from benchmarks.batches import add_measurements, append
from benchmarks.consumer import Consumer
from benchmarks.turns import Measurement
from benchmarks.ways import KEY, PlainLoop, Stream
from benchmarks.world import World, new_world
from lakehouse.storage.row_order import merged_layout

RECORDS = 5_000
WARM_UP_ROUNDS = 6  # rounds until the session is warm
_HOURS = 40_176  # in the 55 months over which the rows are spread
_COPIES = ("appended", "consumed", "streamed", "streamed_pruned", "streamed_once")
_PLAIN_TABLE = "plain"
_INTERNAL_COLUMNS = "_record", "_kept"


@dataclass
class Rivals:
    """The contenders: a function by name, which runs in every turn."""

    world: World
    turns: dict[str, Callable[[], object]]

    def round(self, measurements: dict[str, Measurement]) -> None:
        """Publish once and give each contender a turn; lakehouse is the last, followed by its derived tables."""
        self.world.publish(RECORDS)
        for name, work in self.turns.items():
            with measurements.setdefault(name, Measurement()).turn():
                work()


def run(turns: int, rows: int) -> dict[str, Measurement]:
    """Measure each contender in its own table, in turns. Raise ``ValueError`` if a table differs from lakehouse's."""
    with new_world(rows // _HOURS) as world:
        world.fill(rows)
        _copy_merged_table(world)
        with _open_rivals(world) as rivals:
            for _ in range(WARM_UP_ROUNDS):
                rivals.round({})
            measurements: dict[str, Measurement] = {}
            for _ in range(turns):
                rivals.round(measurements)
        _require_same_rows(world)
    return _add_parts(measurements)


def _add_parts(measurements: dict[str, Measurement]) -> dict[str, Measurement]:
    """Add up the measured parts of lakehouse and of the plain loop."""
    plain_loop = measurements["plain loop, no VACUUM"]
    return {
        "append": measurements["append"],
        "lakehouse": measurements["lakehouse"],
        "lakehouse with feed and rollup": add_measurements(measurements["lakehouse"], measurements["derive"]),
        "deltalake": measurements["deltalake"],
        "foreachBatch": measurements["foreachBatch"],
        "foreachBatch, months named": measurements["foreachBatch, months named"],
        "foreachBatch, started each time": measurements["foreachBatch, started each time"],
        "plain loop": add_measurements(plain_loop, measurements["VACUUM, Spark's settings"]),
        "plain loop, our settings": add_measurements(plain_loop, measurements["VACUUM, our settings"]),
        "plain loop, no VACUUM": plain_loop,
    }


@contextmanager
def _open_rivals(world: World) -> Iterator[Rivals]:
    plain_loop = PlainLoop(world, _uri(world, _PLAIN_TABLE))
    restarted_stream = Stream(world, _uri(world, "streamed_once"))
    with (
        closing(Stream(world, _uri(world, "streamed"))) as stream,
        closing(Stream(world, _uri(world, "streamed_pruned"), pruned=True)) as pruned_stream,
    ):
        yield Rivals(
            world,
            {
                "append": lambda: append(world),
                "deltalake": Consumer(world, _uri(world, "consumed")).merge,
                "foreachBatch": stream.next_batch,
                "foreachBatch, months named": pruned_stream.next_batch,
                "foreachBatch, started each time": restarted_stream.merge_once,
                "plain loop, no VACUUM": plain_loop.merge,
                "VACUUM, our settings": plain_loop.vacuum,
                "VACUUM, Spark's settings": plain_loop.stock_vacuum,
                "lakehouse": world.merge,
                "derive": world.derive,
            },
        )


def _copy_merged_table(world: World) -> None:
    """Copy the merged table for every rival: with the same partitions, or without partitions for the plain loop."""
    layout = merged_layout(world.table, world.settings)
    rows = world.spark.read.format("delta").load(layout.uri).drop(*_INTERNAL_COLUMNS)
    by_month = rows.repartition("observed_month")
    for name in _COPIES:
        by_month.write.format("delta").partitionBy("observed_month").save(_uri(world, name))
    rows.drop("observed_month").write.format("delta").save(_uri(world, _PLAIN_TABLE))


def _require_same_rows(world: World) -> None:
    """Compare the tables of all rivals except the append: the number of rows and the sum of their hashes."""
    lakehouse_sum = _sum_rows(world, world.table.name)
    other_sums = {name: _sum_rows(world, name) for name in (*_COPIES[1:], _PLAIN_TABLE)}
    if differing_names := [name for name, row_sum in other_sums.items() if row_sum != lakehouse_sum]:
        raise ValueError(f"Rows differ from lakehouse: {', '.join(differing_names)}; {lakehouse_sum}, {other_sums}")


def _sum_rows(world: World, name: str) -> tuple[object, ...]:
    rows = world.spark.read.format("delta").load(_uri(world, name))
    hash_sql = f"CAST(xxhash64({', '.join(KEY)}, temperature_2m) AS DECIMAL(38,0))"
    return tuple(rows.selectExpr("count(*)", f"sum({hash_sql})").collect()[0])


def _uri(world: World, name: str) -> str:
    return world.settings.table_uri(name)
