"""History: the cost of a batch, of ``status`` and of a tick after many batches."""

import json
import tempfile
from functools import partial
from pathlib import Path
from uuid import uuid4

import dagster as dg
from deltalake import DeltaTable

from benchmarks.light import run_command, sensor_tick
from benchmarks.turns import Measurement, rotate, take_turns
from benchmarks.world import World, new_worlds
from lakehouse.ledger.ledger import app_id, read_ledger

RECORDS, ROWS, PLACES = 5_000, 240_000, 6
COMMITS = (30, 3_000)
WARM_UP_BATCHES = 8  # batches until the session is warm
_CHECKPOINT_INTERVAL = 10  # commits from one checkpoint to the next


def run(turns: int) -> dict[str, dict[str, Measurement]]:
    """Measure a batch, ``status`` and a tick of the sensor after few and after many commits, in turns."""
    names = {f"{commits:,} commits": commits for commits in COMMITS}
    with (
        new_worlds(list(names), PLACES) as worlds,
        tempfile.TemporaryDirectory() as folder,
        dg.DagsterInstance.local_temp(folder) as instance,
    ):
        for name, world in worlds.items():
            _create_tables(world, names[name])
        batches = {name: Measurement() for name in worlds}
        for number in range(WARM_UP_BATCHES + turns):
            for name, world in rotate(number, worlds.items()):
                world.publish(RECORDS)
                with batches[name].turn() if number >= WARM_UP_BATCHES else Measurement().turn():
                    _run_batch(world)
        status_commands = {name: partial(run_command, world.settings, "status") for name, world in worlds.items()}
        ticks = {name: sensor_tick(world.settings, instance) for name, world in worlds.items()}
        take_turns(2, ticks)
        return {"batch": batches, "status": take_turns(turns, status_commands), "tick": take_turns(turns, ticks)}


def _create_tables(world: World, commits: int) -> None:
    """Create a table with feed and rollups, each with a log of ``commits`` commits."""
    world.fill(ROWS)
    world.publish(RECORDS)
    _run_batch(world)
    for name in (world.table.name, world.table.changes_name, *(rollup.name for rollup in world.table.rollups)):
        _lengthen_log(world.settings.table_uri(name), name, commits)


def _run_batch(world: World) -> None:
    world.merge()
    world.derive()


def _lengthen_log(uri: str, name: str, version: int) -> None:
    """Append commits of lakehouse to the log of a table up to ``version``, as batches that change no file."""
    newest_entry = read_ledger(uri, name).newest
    if newest_entry is None:
        raise ValueError(f"{uri} has no commit of lakehouse")
    commit = newest_entry.commit
    table = DeltaTable(uri)
    for number in range(table.version() + 1, version + 1):
        commit = commit.model_copy(
            update={"number": commit.number + 1, "attempt": uuid4().hex, "table_version": number - 1, "ranges": ()}
        )
        info = {
            "timestamp": 1_546_300_800_000 + number,
            "operation": "MERGE",
            "operationParameters": {},
            "userMetadata": commit.model_dump_json(),
        }
        actions = ({"commitInfo": info}, {"txn": {"appId": app_id(name), "version": commit.number}})
        file = Path(uri, "_delta_log", f"{number:020d}.json")
        file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        if number % _CHECKPOINT_INTERVAL == 0:
            table.update_incremental()
            table.create_checkpoint()
