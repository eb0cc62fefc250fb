"""A streaming query over Spark Connect cannot feed a table: its function would run on the server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.settings import Settings
from lakehouse_tests.helpers.engines import home_of_workers, running_engine

pytestmark = pytest.mark.timeout(600)

_PROGRAM = """
import json, sys
from lakehouse import foreach_batch
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse.spark.own_session import is_classic
from lakehouse.spark.sessions import build_session, stop_session

settings = Settings.load()
earlier_function = foreach_batch(temperatures, settings)  # before the process has a session
session = build_session(settings)
texts = [str(is_classic(session))]
try:
    foreach_batch(temperatures, settings)
except Exception as error:
    texts.append(str(error))
rows = session.readStream.format("rate").load()
query = rows.writeStream.foreachBatch(earlier_function).option("checkpointLocation", sys.argv[1]).start()
try:
    query.awaitTermination(120)
except Exception as error:
    texts.append(str(error))
print(json.dumps(texts))
stop_session(session)
"""


def test_foreach_batch_is_refused_where_it_is_called_and_by_the_server_if_it_was_called_before(
    broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = home_of_workers(tmp_path / "home", broker)
    for name in ("home", "spark_master", "spark_driver_memory", "kafka_bootstrap_servers"):
        monkeypatch.setenv(f"LAKEHOUSE_{name.upper()}", str(getattr(settings, name)))
    with running_engine(settings):
        command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "checkpoint")]
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert process.returncode == 0, process.stderr[-3000:]
    is_classic, at_call, in_query = json.loads(process.stdout.splitlines()[-1])
    assert is_classic == "False"
    for text in (at_call, in_query):
        assert "foreach_batch needs a Spark of this process: over Spark Connect" in text
        assert "lakehouse follow" in text
