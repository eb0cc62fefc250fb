"""Growth: what a batch costs where the table is large.

A table grows in days: the same places report each hour, for so many more months. A batch falls into one of them.
"""

from benchmarks.turns import Measured, in_turn
from benchmarks.world import World, new_worlds
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.ledger.audit import batches_accounted, changes_kept
from lakehouse.operations import verify
from lakehouse.storage.table_context import merged_ledger

RECORDS, PLACES = 5_000, 248
SIZES = (1_000_000, 10_000_000, 100_000_000)
WARM = 8  # rounds until the session is warm


def run(turns: int) -> dict[str, Measured]:
    """Measure batches of 5,000 records, with feed, rollup and the checks of a run, in tables of each size in turns."""
    names = {f"{size:,} rows": size for size in SIZES}
    with new_worlds(list(names), PLACES) as worlds:
        for name, world in worlds.items():
            world.fill(names[name], as_changes=False)
        measured: dict[str, Measured] = {}
        for number in range(WARM + turns):
            for name, world in in_turn(number, worlds.items()):
                world.publish(RECORDS)
                with measured.setdefault(name, Measured()).turn() if number >= WARM else Measured().turn():
                    _run(world)
    return measured


def _run(world: World) -> None:
    """What a run of the sensor does, once it has a session."""
    before = merged_ledger(world.settings, world.table).version
    world.merge()
    ledger = merged_ledger(world.settings, world.table)
    found = [batches_accounted(ledger, [each for each in ledger.entries if each.version > before])]
    found.append(changes_kept(reconciled=refresh_changes(world.context).rebuilt))
    for rollup in world.table.rollups:
        found.append(verify.verify_touched(world.context, rollup, refresh_rollup(world.context, rollup)))
    if wrong := [each for each in found if not each.passed]:
        raise ValueError(f"A check failed: {wrong}")
