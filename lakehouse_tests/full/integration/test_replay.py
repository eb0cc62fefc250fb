"""Replay changes nothing: any range, any number of times, in any split into batches, in any order."""

import random
import subprocess
import sys

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.brokers.streams import ABSENT, Stream, hour, record


@pytest.fixture
def stream(spark, broker):
    """A topic in which keys repeat over partitions, values are missing and some records are malformed."""
    stream = Stream.create(spark, broker)
    rng = random.Random(7)
    for partition in (0, 1, 2, 1, 0):
        values = [rng.choice([ABSENT, None, float(rng.randrange(30))]) for _ in range(8)]
        hours = [hour(rng.randrange(6)) for _ in values]
        valid_records = [record(time=time, temperature_2m=value) for time, value in zip(hours, values, strict=True)]
        stream.send(*valid_records, b"{", partition=partition)
    return stream


@pytest.mark.invariant("3.4")
def test_only_merged_records_can_be_replayed(stream):
    stream.merge(until={0: 5, 1: 0, 2: 0})
    with pytest.raises(LakehouseError, match="Offsets 0 to 9 of partition 0 cannot be replayed"):
        replay(stream.context, [Range(0, 0, 9)])


@pytest.mark.invariant("1.2")
def test_another_process_continues_where_this_one_stopped(stream):
    """The progress is in the table: another process needs only the settings to plan the rest."""
    stream.merge(until={0: 5, 1: 5, 2: 5})
    script = (
        "from dataclasses import replace\n"
        "from lakehouse.ingest.batches import plan_next\nfrom lakehouse.settings import Settings\n"
        "from lakehouse.examples.tables.temperatures import temperatures\n"
        f"table = replace(temperatures, name={stream.table.name!r}, topic={stream.table.topic!r}, rollups=[])\n"
        "print([(r.partition, r.start) for r in plan_next(Settings.load(), table).ranges])"
    )
    environment = {
        "LAKEHOUSE_HOME": str(stream.settings.home_folder),
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": stream.settings.kafka_bootstrap_servers or "",
    }
    environment = {name: value for name, value in environment.items() if value}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[(0, 5), (1, 5), (2, 5)]"
