"""Follow mode survives a restart of the broker: it reports it once, waits, and merges later records and deletes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.kafka import publish
from lakehouse.ledger.ledger import read_ledger
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks import deleting_streams
from lakehouse_tests.helpers.attacks.deleting_streams import temperatures_with_deletes
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.tables.tables import Tables
from lakehouse_tests.helpers.waiting import wait_until

pytestmark = pytest.mark.invariant("12.3")

SAMPLES = [line for line, _ in zip(temperatures_with_deletes.samples.stream(), range(35), strict=False)]
LINES = [*SAMPLES, *(json.dumps({**json.loads(line), "operation": "DELETE"}).encode() for line in SAMPLES[:5])]
FOLLOW = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "follow", "temperatures"]


def test_follow_continues_when_its_broker_is_back(fragile_broker: OneServer, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=fragile_broker.embedded.address, _env_file=None)
    publish(fragile_broker.settings, temperatures_with_deletes, LINES[:20])
    log_file = tmp_path / "stderr"

    def count_read_records() -> int:
        return read_ledger(settings.table_uri("temperatures"), "temperatures").totals.read

    with log_file.open("w") as stderr:
        environment = {
            "LAKEHOUSE_HOME": str(tmp_path),
            "LAKEHOUSE_DECLARATIONS": deleting_streams.__name__,
            "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": fragile_broker.embedded.address,
        }
        follow = subprocess.Popen([*FOLLOW, "--idle-exit", "20"], env={**os.environ, **environment}, stderr=stderr)
    try:
        assert wait_until(lambda: count_read_records() == 20 or follow.poll() is not None, 240)
        fragile_broker.embedded.stop()
        assert wait_until(lambda: "Waiting until it answers" in log_file.read_text() or follow.poll() is not None, 60)
        assert follow.poll() is None, log_file.read_text()
        fragile_broker.embedded.start()
        assert wait_until(lambda: "answers again" in log_file.read_text(), 60)
        publish(fragile_broker.settings, temperatures_with_deletes, LINES[20:])
        assert wait_until(lambda: count_read_records() == 40 or follow.poll() is not None, 120)
        assert follow.wait(120) == 0, log_file.read_text()
        assert count_read_records() == 40
        assert len(Tables(settings, temperatures_with_deletes).deletes()) == 5
    finally:
        follow.kill()
        fragile_broker.embedded.start()
    broker_lines = [
        line for line in log_file.read_text().splitlines() if fragile_broker.embedded.address in line or "again" in line
    ]
    assert len(broker_lines) == 2, log_file.read_text()
