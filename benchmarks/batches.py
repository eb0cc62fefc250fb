"""Batches: the cost of a merge, compared to an append and to a bare MERGE of the same records."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.turns import Measurement
from benchmarks.world import World, new_world
from lakehouse.ledger.durability import sync_commits
from lakehouse.storage.row_order import merged_layout

ROWS = 240_000
WARM_UP_ROUNDS = 12  # batches until the session is warm


def run(turns: int, sizes: Sequence[int], places: int = 6, months: int = 1) -> dict[str, dict[str, Measurement]]:
    """Measure each batch size in turns; return measurements by size, then by contender."""
    with new_world(places) as world:
        world.fill(ROWS)
        copy_merged_table(world)
        for _ in range(WARM_UP_ROUNDS):
            _run_round(world, 5, months, {})
        measurements = {}
        for size in sizes:
            of_size: dict[str, Measurement] = {}
            _run_round(world, size, months, {})
            for _ in range(turns):
                _run_round(world, size, months, of_size)
            measurements[f"{size:,}"] = of_size
            of_size["merge and derive"] = add_measurements(of_size["merge"], of_size["derive"])
        return measurements


def add_measurements(first: Measurement, second: Measurement) -> Measurement:
    """Add two measurements whose contenders ran one after the other in each turn."""
    pairs = (zip(first.seconds, second.seconds, strict=True), zip(first.cpu, second.cpu, strict=True))
    return Measurement(*([sum(pair) for pair in turn_pairs] for turn_pairs in pairs))


def copy_merged_table(world: World) -> None:
    """Copy the merged table for the append and for the bare MERGE, with the same partitions."""
    layout = merged_layout(world.table, world.settings)
    rows = world.spark.read.format("delta").load(layout.uri).drop("_record", "_kept")
    for name in ("appended", "bare"):
        writer = rows.repartition("observed_month").write.format("delta").partitionBy("observed_month")
        writer.option("delta.enableChangeDataFeed", str(name == "bare").lower()).save(_uri(world, name))


def _uri(world: World, name: str) -> str:
    return world.settings.table_uri(name)


def _run_round(world: World, size: int, months: int, measurements: dict[str, Measurement]) -> None:
    world.publish(size, months)
    decoded_rows = world.read().select(*_columns(world)).localCheckpoint()
    months_row = decoded_rows.selectExpr("collect_set(CAST(observed_month AS STRING)) AS months").first()
    literals = ", ".join(f"DATE'{month}'" for month in (months_row["months"] if months_row else []))

    def bare() -> None:
        decoded_rows.dropDuplicates(list(world.table.key)).createOrReplaceTempView("batch_rows")
        same_key = " AND ".join(f"s.{name} = t.{name}" for name in world.table.key)
        world.spark.sql(
            f"MERGE INTO delta.`{_uri(world, 'bare')}` AS t USING batch_rows AS s"
            f" ON {same_key} AND t.observed_month IN ({literals})"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    contenders = {"append": lambda: append(world), "bare MERGE": bare, "merge": world.merge, "derive": world.derive}
    for name, work in contenders.items():
        with measurements.setdefault(name, Measurement()).turn():
            work()
    _run_round_unsynced(world, size, months, measurements.setdefault("merge and derive, not synced", Measurement()))


def _run_round_unsynced(world: World, size: int, months: int, measurement: Measurement) -> None:
    """Merge and derive as many records again, without syncing the commits to the disk."""
    world.publish(size, months)
    unsynced = replace(world, settings=world.settings.model_copy(update={"sync": False}))
    with measurement.turn():
        unsynced.merge()
        unsynced.derive()
    for name in (world.table.name, *world.table.derived):
        sync_commits(world.settings.table_uri(name))


def append(world: World) -> None:
    """Read, decode and append the waiting records: the lower bound of every merge."""
    rows = world.read().where("_reason IS NULL").select(*_columns(world))
    rows.write.format("delta").mode("append").save(_uri(world, "appended"))


def _columns(world: World) -> list[str]:
    return [*(c.name for c in world.table.columns), "observed_month"]
