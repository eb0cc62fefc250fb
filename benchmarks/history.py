"""History: what a batch and a look cost where many batches were before."""

import json
import tempfile
from functools import partial
from pathlib import Path
from uuid import uuid4

import dagster as dg
from deltalake import DeltaTable

from benchmarks.light import look, ticks
from benchmarks.turns import Measured, in_turn, take_turns
from benchmarks.world import World, new_worlds
from lakehouse.ledger.ledger import app_id, read_ledger

RECORDS, ROWS, PLACES = 5_000, 240_000, 6
COMMITS = (30, 3_000)
WARM = 8  # batches until the session is warm
_CHECKPOINTS = 10  # commits from one checkpoint to the next


def run(turns: int) -> dict[str, dict[str, Measured]]:
    """Measure a batch, ``status`` and a tick of the sensor beside few and many commits, in turns."""
    names = {f"{commits:,} commits": commits for commits in COMMITS}
    with (
        new_worlds(list(names), PLACES) as worlds,
        tempfile.TemporaryDirectory() as folder,
        dg.DagsterInstance.local_temp(folder) as dagster,
    ):
        for name, world in worlds.items():
            _make(world, names[name])
        batches = {name: Measured() for name in worlds}
        for number in range(WARM + turns):
            for name, world in in_turn(number, worlds.items()):
                world.publish(RECORDS)
                with batches[name].turn() if number >= WARM else Measured().turn():
                    _batch(world)
        looks = {name: partial(look, world.settings, "status") for name, world in worlds.items()}
        tick = {name: ticks(world.settings, dagster) for name, world in worlds.items()}
        take_turns(2, tick)
        return {"batch": batches, "status": take_turns(turns, looks), "tick": take_turns(turns, tick)}


def _make(world: World, commits: int) -> None:
    """A table with feed and rollups, each with a log of so many commits."""
    world.fill(ROWS)
    world.publish(RECORDS)
    _batch(world)
    for name in (world.table.name, world.table.changes_name, *(rollup.name for rollup in world.table.rollups)):
        _lengthen(world.settings.table_uri(name), name, commits)


def _batch(world: World) -> None:
    world.merge()
    world.derive()


def _lengthen(uri: str, name: str, version: int) -> None:
    """Give a table's log commits of ours up to this version, each as a batch that changed no file would be."""
    newest = read_ledger(uri, name).newest
    if newest is None:
        raise ValueError(f"{uri} has no commit of ours")
    said = newest.commit
    table = DeltaTable(uri)
    for number in range(table.version() + 1, version + 1):
        said = said.model_copy(
            update={"number": said.number + 1, "attempt": uuid4().hex, "table_version": number - 1, "ranges": ()}
        )
        info = {
            "timestamp": 1_546_300_800_000 + number,
            "operation": "MERGE",
            "operationParameters": {},
            "userMetadata": said.model_dump_json(),
        }
        actions = ({"commitInfo": info}, {"txn": {"appId": app_id(name), "version": said.number}})
        file = Path(uri, "_delta_log", f"{number:020d}.json")
        file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        if number % _CHECKPOINTS == 0:
            table.update_incremental()
            table.create_checkpoint()
