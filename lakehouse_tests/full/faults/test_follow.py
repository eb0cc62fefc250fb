"""Follow mode outlives a broker that is restarted: it says so once, waits, and merges what comes afterwards."""

import os
import subprocess
import sys
from pathlib import Path

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import publish
from lakehouse.ledger.ledger import read_ledger
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.servers import OneServer
from lakehouse_tests.helpers.waiting import wait_until

LINES = [line for line, _ in zip(temperatures.samples.stream(), range(40), strict=False)]
FOLLOW = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "follow", "temperatures"]


def test_follow_goes_on_when_a_broker_that_went_away_is_back(one: OneServer, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=one.embedded.address, _env_file=None)
    publish(one.settings, temperatures, LINES[:20])
    said = tmp_path / "said"

    def read() -> int:
        return read_ledger(settings.table_uri("temperatures"), "temperatures").totals.read

    with said.open("w") as errors:
        environment = {"LAKEHOUSE_HOME": str(tmp_path), "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": one.embedded.address}
        follow = subprocess.Popen([*FOLLOW, "--idle-exit", "20"], env={**os.environ, **environment}, stderr=errors)
    try:
        assert wait_until(lambda: read() == 20 or follow.poll() is not None, 240)
        one.embedded.stop()
        assert wait_until(lambda: "Waiting until it answers" in said.read_text() or follow.poll() is not None, 60)
        assert follow.poll() is None, said.read_text()
        one.embedded.start()
        assert wait_until(lambda: "answers again" in said.read_text(), 60)
        publish(one.settings, temperatures, LINES[20:])
        assert wait_until(lambda: read() == 40 or follow.poll() is not None, 120)
        assert follow.wait(120) == 0, said.read_text()
        assert read() == 40
    finally:
        follow.kill()
        one.embedded.start()
    told = [line for line in said.read_text().splitlines() if one.embedded.address in line or "again" in line]
    assert len(told) == 2, said.read_text()
