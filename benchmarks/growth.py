"""Growth: the cost of a batch in a large table.

A table grows in time: the same places report every hour, over more months. A batch falls into one month.
"""

from benchmarks.turns import Measurement, rotate
from benchmarks.world import World, new_worlds
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.ledger.audit import batches_accounted, changes_kept
from lakehouse.operations import verify
from lakehouse.storage.table_context import merged_ledger

RECORDS, PLACES = 5_000, 248
SIZES = (1_000_000, 10_000_000, 100_000_000)
WARM_UP_ROUNDS = 8  # rounds until the session is warm


def run(turns: int) -> dict[str, Measurement]:
    """Measure batches of 5,000 records with feed, rollup and the checks of a run, for each table size in turns."""
    names = {f"{size:,} rows": size for size in SIZES}
    with new_worlds(list(names), PLACES) as worlds:
        for name, world in worlds.items():
            world.fill(names[name], as_changes=False)
        measurements: dict[str, Measurement] = {}
        for number in range(WARM_UP_ROUNDS + turns):
            for name, world in rotate(number, worlds.items()):
                world.publish(RECORDS)
                with (
                    measurements.setdefault(name, Measurement()).turn()
                    if number >= WARM_UP_ROUNDS
                    else Measurement().turn()
                ):
                    _run(world)
    return measurements


def _run(world: World) -> None:
    """Do what a run of the sensor does once it has a session."""
    version_before = merged_ledger(world.settings, world.table).version
    world.merge()
    ledger = merged_ledger(world.settings, world.table)
    findings = [batches_accounted(ledger, [entry for entry in ledger.entries if entry.version > version_before])]
    findings.append(changes_kept(reconciled=refresh_changes(world.context).rebuilt))
    for rollup in world.table.rollups:
        findings.append(verify.verify_touched(world.context, rollup, refresh_rollup(world.context, rollup)))
    if failed_findings := [finding for finding in findings if not finding.passed]:
        raise ValueError(f"A check failed: {failed_findings}")
