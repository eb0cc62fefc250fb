"""The progress is in the table: any process continues from it."""

import subprocess
import sys

import pytest

from lakehouse_tests.helpers.brokers.streams import Stream


@pytest.mark.invariant("1.2")
def test_another_process_continues_where_this_one_stopped(spark, broker):
    """Another process needs only the settings to plan the rest."""
    stream = Stream.create(spark, broker)
    for partition in range(3):
        stream.send(*[b"{"] * 8, partition=partition)
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
