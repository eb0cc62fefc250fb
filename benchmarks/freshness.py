"""Freshness: the time from the acknowledgement of a record to the commit that shows it to queries, in ``follow``."""

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

from benchmarks.turns import Measurement
from benchmarks.world import World, new_world
from lakehouse.ledger.commit_infos import entry_of
from lakehouse.ledger.log import read_history
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.table_context import merged_ledger

ROWS, PLACES = 10_000_000, 248
RATE = 1_000  # records a second
BATCH = 5_000
_WARM_UP_SECONDS, _MEASURED_SECONDS = 90.0, 180.0
_TICK_SECONDS = 0.1
_WARM_BATCHES = 8
_FOLLOW = "from lakehouse.cli.main import main; main()"

RecordTimes = dict[tuple[int, int], float]  # times by partition and offset


def run(turns: int) -> dict[str, Measurement]:
    """Measure batches of 5,000 records, then the time that each record of a steady stream waits.

    Records that are acknowledged while the following process warms up do not count.
    """
    with new_world(PLACES) as world:
        world.fill(ROWS)
        batches = Measurement()
        for number in range(_WARM_BATCHES + turns):
            world.publish(BATCH)
            with batches.turn() if number >= _WARM_BATCHES else Measurement().turn():
                world.merge()
                world.derive()
        started_at = time.time()
        with _following(world):
            acknowledged_times = asyncio.run(_produce(world))
            _await_merges(world, acknowledged_times)
        waiting_times = sorted(
            visible_at - acknowledged_times[record]
            for record, visible_at in _read_visible_times(world, started_at).items()
            if acknowledged_times.get(record, 0) > started_at + _WARM_UP_SECONDS
        )
    return {
        f"a batch of {BATCH:,}": batches,
        "records, median": _single(waiting_times[len(waiting_times) // 2]),
        "records, 95th percentile": _single(waiting_times[len(waiting_times) * 95 // 100]),
        "records, the last": _single(waiting_times[-1]),
    }


def _single(seconds: float) -> Measurement:
    return Measurement([seconds])


@contextmanager
def _following(world: World) -> Iterator[None]:
    servers = bootstrap_servers(world.settings)
    variables = {"LAKEHOUSE_HOME": str(world.settings.home), "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": servers}
    command = [sys.executable, "-c", _FOLLOW, "follow", world.table.name]
    log = (world.settings.home_folder / "follow.log").open("w")
    with log, subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()


async def _produce(world: World) -> RecordTimes:
    """Send records at a steady rate; return the time of each acknowledgement."""
    acknowledged_times: RecordTimes = {}
    started_at, sent_count = time.monotonic(), 0

    def record_time(acknowledgement: "asyncio.Future[Any]") -> None:
        metadata = acknowledgement.result()
        acknowledged_times[metadata.partition, metadata.offset] = time.time()

    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers(world.settings), acks="all", linger_ms=5
    ) as producer:
        while time.monotonic() < started_at + _WARM_UP_SECONDS + _MEASURED_SECONDS:
            for _ in range(int((time.monotonic() - started_at) * RATE) - sent_count):
                value = world.line(sent_count % (2 * BATCH), 1)
                (await producer.send(world.table.topic, value, str(sent_count).encode())).add_done_callback(record_time)
                sent_count += 1
                world.published += 1
            await asyncio.sleep(_TICK_SECONDS)
        await producer.flush()
    return acknowledged_times


def _read_visible_times(world: World, started_at: float) -> RecordTimes:
    """Return when each record became visible: the time of the log file of its commit."""
    uri = merged_layout(world.table, world.settings).uri
    visible_times: RecordTimes = {}
    for info in read_history(uri):
        entry = entry_of(info)
        file = Path(uri, "_delta_log", f"{info['version']:020d}.json")
        if entry and (committed_at := file.stat().st_mtime) > started_at:
            for part in entry.commit.ranges:
                visible_times |= {(part.partition, offset): committed_at for offset in range(part.start, part.end)}
    return visible_times


def _await_merges(world: World, acknowledged_times: RecordTimes) -> None:
    end_offsets: dict[int, int] = {}
    for partition, offset in acknowledged_times:
        end_offsets[partition] = max(offset + 1, end_offsets.get(partition, 0))
    deadline = time.monotonic() + _MEASURED_SECONDS
    while any(_progress(world).get(partition, 0) < end_offset for partition, end_offset in end_offsets.items()):
        if time.monotonic() > deadline:
            raise TimeoutError("Not all acknowledged records were merged")
        time.sleep(1)


def _progress(world: World) -> Mapping[int, int]:
    progress = merged_ledger(world.settings, world.table).progress
    return progress.positions if progress else {}
