"""``lakehouse follow`` as a process."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import publish
from lakehouse.ledger.ledger import read_ledger
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import DATA
from lakehouse_tests.helpers.waiting import wait_until

RECORDS = (DATA / "stream.jsonl").read_bytes().splitlines()


def test_follow_merges_new_records_and_ends_cleanly_on_ctrl_c(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, _env_file=None)

    def has_merged(batches: int) -> bool:
        return read_ledger(settings.table_uri("temperatures"), "temperatures").totals.batches == batches

    with running_broker(settings):
        process = subprocess.Popen(
            [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "follow", "temperatures"],
            env={**os.environ, "LAKEHOUSE_HOME": str(tmp_path), "LAKEHOUSE_SPARK_DRIVER_MEMORY": "1g"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            for number in (1, 2):
                publish(settings, temperatures, RECORDS)
                assert wait_until(partial(has_merged, number), 120)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "Stopped" in out
    assert "Traceback" not in err
