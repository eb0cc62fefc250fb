"""Freshness: from the broker's word that it has a record to the commit that lets a query see it, in ``follow``."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from benchmarks.turns import Measured
from benchmarks.world import World, new_world
from lakehouse.ledger.commits import entry_of
from lakehouse.ledger.log import read_history
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.table_context import merged_ledger

ROWS, PLACES = 10_000_000, 248
RATE = 1_000  # records a second
BATCH = 5_000
_WARM, _MEASURED = 90.0, 180.0  # seconds
_TICK = 0.1
_WARM_BATCHES = 8
_FOLLOW = "from lakehouse.cli.main import main; main()"

Acknowledged = dict[tuple[int, int], float]  # when, by partition and offset


def run(turns: int) -> dict[str, Measured]:
    """Measure whole batches of 5,000 records, and then how long each record of a steady stream waits.

    What was acknowledged while the process that follows was still cold does not count.
    """
    with new_world(PLACES) as world:
        world.fill(ROWS)
        batches = Measured()
        for number in range(_WARM_BATCHES + turns):
            world.publish(BATCH)
            with batches.turn() if number >= _WARM_BATCHES else Measured().turn():
                world.merge()
                world.derive()
        begun = time.time()
        with _following(world):
            acknowledged = asyncio.run(_produce(world))
            _await_all(world, acknowledged)
        waits = sorted(
            seen - acknowledged[record]
            for record, seen in _seen(world, begun).items()
            if acknowledged.get(record, 0) > begun + _WARM
        )
    return {
        f"a batch of {BATCH:,}": batches,
        f"{len(waits):,} records, median": _only(waits[len(waits) // 2]),
        "records, 95th percentile": _only(waits[len(waits) * 95 // 100]),
        "records, the last": _only(waits[-1]),
    }


def _only(seconds: float) -> Measured:
    return Measured([seconds])


@contextmanager
def _following(world: World) -> Iterator[None]:
    servers = bootstrap_servers(world.settings)
    here = {"LAKEHOUSE_HOME": str(world.settings.home), "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": servers}
    command = [sys.executable, "-c", _FOLLOW, "follow", world.table.name]
    log = (world.settings.home_folder / "follow.log").open("w")
    with log, subprocess.Popen(command, env={**os.environ, **here}, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()


async def _produce(world: World) -> Acknowledged:
    """Send at a steady rate; when the broker acknowledged which record."""
    found: Acknowledged = {}
    begun, sent = time.monotonic(), 0

    def note(answer: "asyncio.Future[Any]") -> None:
        told = answer.result()
        found[told.partition, told.offset] = time.time()

    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers(world.settings), acks="all", linger_ms=5) as sender:
        while time.monotonic() < begun + _WARM + _MEASURED:
            for _ in range(int((time.monotonic() - begun) * RATE) - sent):
                value = world.line(sent % (2 * BATCH), 1)
                (await sender.send(world.table.topic, value, str(sent).encode())).add_done_callback(note)
                sent += 1
                world.published += 1
            await asyncio.sleep(_TICK)
        await sender.flush()
    return found


def _seen(world: World, begun: float) -> Acknowledged:
    """When each record could be seen: when the commit that holds it stood in the log, as its file tells."""
    uri = merged_layout(world.table, world.settings).uri
    found: Acknowledged = {}
    for info in read_history(uri):
        entry = entry_of(info)
        file = Path(uri, "_delta_log", f"{info['version']:020d}.json")
        if entry and (written := file.stat().st_mtime) > begun:
            for each in entry.commit.ranges:
                found |= {(each.partition, offset): written for offset in range(each.start, each.end)}
    return found


def _await_all(world: World, acknowledged: Acknowledged) -> None:
    ends: dict[int, int] = {}
    for partition, offset in acknowledged:
        ends[partition] = max(offset + 1, ends.get(partition, 0))
    deadline = time.monotonic() + _MEASURED
    while any(_progress(world).get(partition, 0) < end for partition, end in ends.items()):
        if time.monotonic() > deadline:
            raise TimeoutError("Not all that was acknowledged was merged")
        time.sleep(1)


def _progress(world: World) -> Mapping[int, int]:
    progress = merged_ledger(world.settings, world.table).progress
    return progress.positions if progress else {}
