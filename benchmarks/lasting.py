"""Small batches over time: the cost of a batch after a thousand others, and the files that they leave on the disk."""

import time
from pathlib import Path

from benchmarks.turns import Measurement
from benchmarks.world import World, new_world
from lakehouse.ledger.log import active_files
from lakehouse.operations.maintain import maintain
from lakehouse.storage.row_order import merged_layout

RECORDS, ROWS = 5, 240_000
BATCHES, MAINTENANCE_INTERVAL = 1_000, 250  # batches in all, and from one maintenance to the next
COMPARED = 10
WARM_UP_BATCHES = 12


def run(batches: int = BATCHES) -> tuple[dict[str, Measurement], list[dict[str, object]]]:
    """Measure the first ten and the last ten batches with feed and rollup; count the files and bytes on the disk.

    At the end the retention is set to one second, which has the effect of an expired retention.
    """
    with new_world() as world:
        world.fill(ROWS)
        for _ in range(WARM_UP_BATCHES):
            _run_batch(world, Measurement())
        measurement, file_rows = Measurement(), [_file_row(world, "at first")]
        for number in range(1, batches + 1):
            _run_batch(world, measurement)
            if number % MAINTENANCE_INTERVAL == 0:
                file_rows.append(_file_row(world, f"after {number:,} batches"))
                maintain(world.context)
                file_rows.append(_file_row(world, "maintained"))
        _expire_files(world)
        file_rows += [_file_row(world, "its retention passed"), _write_fresh_table(world)]
    slices = {f"the first {COMPARED}": slice(COMPARED), f"the last {COMPARED}": slice(-COMPARED, None)}
    measurements = {
        name: Measurement(measurement.seconds[part], measurement.cpu[part]) for name, part in slices.items()
    }
    return {**measurements, f"all {batches:,}": measurement}, file_rows


def _run_batch(world: World, measurement: Measurement) -> None:
    world.publish(RECORDS)
    with measurement.turn():
        world.merge()
        world.derive()


def _file_row(world: World, when: str) -> dict[str, object]:
    uri = merged_layout(world.table, world.settings).uri
    return {"": when, "files of the newest version": len(active_files(uri)["path"]), **_measure_files(uri)}


def _expire_files(world: World) -> None:
    """Delete every file that the newest version does not use, as VACUUM does when the retention has expired."""
    table = merged_layout(world.table, world.settings).sql
    world.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration'='interval 1 second')")
    time.sleep(2)
    world.spark.sql(f"VACUUM {table}")


def _write_fresh_table(world: World) -> dict[str, object]:
    """Write the same rows into another table in one commit and return its row of the results."""
    uri = world.settings.table_uri("fresh")
    rows = world.spark.read.format("delta").load(merged_layout(world.table, world.settings).uri)
    rows.repartition("observed_month").write.format("delta").partitionBy("observed_month").save(uri)
    return {"": "written at once", "files of the newest version": len(active_files(uri)["path"]), **_measure_files(uri)}


def _measure_files(uri: str) -> dict[str, object]:
    files = [file for file in Path(uri).rglob("*") if file.is_file()]
    log_files = [file for file in files if "_delta_log" in file.parts]
    log_bytes = sum(file.stat().st_size for file in log_files)
    row_bytes = sum(file.stat().st_size for file in files) - log_bytes
    return {
        "files on the disk": len(files),
        "MB of rows": round(row_bytes / 1e6, 2),
        "MB of log": round(log_bytes / 1e6, 2),
    }
