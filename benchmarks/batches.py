"""Batches: what a merge costs beside an append of the same records, and beside a bare MERGE of them."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.turns import Measured
from benchmarks.world import World, new_world
from lakehouse.ledger.durability import sync_commits
from lakehouse.storage.row_order import merged_layout

ROWS = 240_000
WARM = 12  # batches until the session is warm


def run(turns: int, sizes: Sequence[int], places: int = 6, months: int = 1) -> dict[str, dict[str, Measured]]:
    """Measure each size in turns, in a table of so many places; by size, then by contender."""
    with new_world(places) as world:
        world.fill(ROWS)
        make_twins(world)
        for _ in range(WARM):
            _round(world, 5, months, {})
        found = {}
        for size in sizes:
            measured: dict[str, Measured] = {}
            _round(world, size, months, {})
            for _ in range(turns):
                _round(world, size, months, measured)
            found[f"{size:,}"] = measured
            measured["merge and derive"] = together(measured["merge"], measured["derive"])
        return found


def together(first: Measured, second: Measured) -> Measured:
    """What two did one after the other in each turn."""
    pairs = (zip(first.seconds, second.seconds, strict=True), zip(first.cpu, second.cpu, strict=True))
    return Measured(*([sum(pair) for pair in each] for each in pairs))


def make_twins(world: World) -> None:
    """Tables of the same rows for the append and for the bare MERGE, in the same partitions."""
    layout = merged_layout(world.table, world.settings)
    rows = world.spark.read.format("delta").load(layout.uri).drop("_record", "_kept")
    for name in ("appended", "bare"):
        writer = rows.repartition("observed_month").write.format("delta").partitionBy("observed_month")
        writer.option("delta.enableChangeDataFeed", str(name == "bare").lower()).save(_uri(world, name))


def _uri(world: World, name: str) -> str:
    return world.settings.table_uri(name)


def _round(world: World, size: int, months: int, measured: dict[str, Measured]) -> None:
    world.publish(size, months)
    held = world.read().select(*_columns(world)).localCheckpoint()
    found = held.selectExpr("collect_set(CAST(observed_month AS STRING)) AS months").first()
    literals = ", ".join(f"DATE'{month}'" for month in (found["months"] if found else []))

    def bare() -> None:
        held.dropDuplicates(list(world.table.key)).createOrReplaceTempView("held")
        same = " AND ".join(f"s.{name} = t.{name}" for name in world.table.key)
        world.spark.sql(
            f"MERGE INTO delta.`{_uri(world, 'bare')}` AS t USING held AS s"
            f" ON {same} AND t.observed_month IN ({literals})"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    contenders = {"append": lambda: append(world), "bare MERGE": bare, "merge": world.merge, "derive": world.derive}
    for name, work in contenders.items():
        with measured.setdefault(name, Measured()).turn():
            work()
    _round_unsynced(world, size, months, measured.setdefault("merge and derive, not synced", Measured()))


def _round_unsynced(world: World, size: int, months: int, measured: Measured) -> None:
    """Merge and derive as many records once more, and leave it to the system to bring them to the disk."""
    world.publish(size, months)
    unsynced = replace(world, settings=world.settings.model_copy(update={"sync": False}))
    with measured.turn():
        unsynced.merge()
        unsynced.derive()
    for name in (world.table.name, *world.table.derived):
        sync_commits(world.settings.table_uri(name))


def append(world: World) -> None:
    """Read and decode what waits, and append it: the floor of every merge."""
    rows = world.read().where("_reason IS NULL").select(*_columns(world))
    rows.write.format("delta").mode("append").save(_uri(world, "appended"))


def _columns(world: World) -> list[str]:
    return [*(c.name for c in world.table.columns), "observed_month"]
