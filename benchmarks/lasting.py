"""Over time: what a small batch costs after a thousand others, and what they leave on the disk."""

import time
from pathlib import Path

from benchmarks.turns import Measured
from benchmarks.world import World, new_world
from lakehouse.ledger.log import active_files
from lakehouse.operations.maintain import maintain
from lakehouse.storage.row_order import merged_layout

RECORDS, ROWS = 5, 240_000
BATCHES, BETWEEN = 1_000, 250  # batches in all, and from one maintenance to the next
SHOWN = 10
WARM = 12


def run(batches: int = BATCHES) -> tuple[dict[str, Measured], list[dict[str, object]]]:
    """Measure the first ten batches and the last ten, with feed and rollup; and the files and bytes there are then.

    At the end the retention is taken away, which stands for its having passed.
    """
    with new_world() as world:
        world.fill(ROWS)
        for _ in range(WARM):
            _batch(world, Measured())
        measured, stored = Measured(), [_row(world, "at first")]
        for number in range(1, batches + 1):
            _batch(world, measured)
            if number % BETWEEN == 0:
                stored.append(_row(world, f"after {number:,} batches"))
                maintain(world.context)
                stored.append(_row(world, "maintained"))
        _let_pass(world)
        stored += [_row(world, "its retention passed"), _fresh(world)]
    parts = {f"the first {SHOWN}": slice(SHOWN), f"the last {SHOWN}": slice(-SHOWN, None)}
    found = {name: Measured(measured.seconds[part], measured.cpu[part]) for name, part in parts.items()}
    return {**found, f"all {batches:,}": measured}, stored


def _batch(world: World, measured: Measured) -> None:
    world.publish(RECORDS)
    with measured.turn():
        world.merge()
        world.derive()


def _row(world: World, when: str) -> dict[str, object]:
    uri = merged_layout(world.table, world.settings).uri
    return {"": when, "files of the newest version": len(active_files(uri)["path"]), **_on_disk(uri)}


def _let_pass(world: World) -> None:
    """Delete every file that the newest version does not hold, as VACUUM does when the retention has passed."""
    table = merged_layout(world.table, world.settings).sql
    world.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration'='interval 1 second')")
    time.sleep(2)
    world.spark.sql(f"VACUUM {table}")


def _fresh(world: World) -> dict[str, object]:
    """The same rows in a table written at once."""
    uri = world.settings.table_uri("fresh")
    rows = world.spark.read.format("delta").load(merged_layout(world.table, world.settings).uri)
    rows.repartition("observed_month").write.format("delta").partitionBy("observed_month").save(uri)
    return {"": "written at once", "files of the newest version": len(active_files(uri)["path"]), **_on_disk(uri)}


def _on_disk(uri: str) -> dict[str, object]:
    files = [file for file in Path(uri).rglob("*") if file.is_file()]
    of_log = [file for file in files if "_delta_log" in file.parts]
    log = sum(file.stat().st_size for file in of_log)
    rows = sum(file.stat().st_size for file in files) - log
    return {"files on the disk": len(files), "MB of rows": round(rows / 1e6, 2), "MB of log": round(log / 1e6, 2)}
