"""An engine that takes connections and says nothing, as one that is stopped or swaps, or that goes meanwhile."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import fcntl, json, os, socket, sys, time
from pathlib import Path
from pyspark.errors import PySparkException
from lakehouse.spark.connect import client, session
from lakehouse.errors import SetupError

folder = Path(sys.argv[1])
mute = socket.create_server(("127.0.0.1", 0))

def started(name):
    told = {"port": mute.getsockname()[1], "pid": 1, "fingerprint": "same", "start": name}
    (folder / "address").write_text(json.dumps(told))

def ends(*_):
    started("another")
    os.close(lock)
    raise PySparkException("refused")

(folder / "token").write_text("token")
started("first")
lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
client.FIRST_ANSWER = 1.0
try:
    session.attach(folder, "same")
except SetupError as error:
    print(error)
session.require_answer = ends
print("attached to", session.attach(folder, "same"))
"""


@pytest.mark.timeout(120)
def test_it_is_an_error_and_one_that_is_gone_by_then_is_none(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "The engine of this home does not answer within 1 seconds" in told.stdout
    assert "Start lakehouse up again" in told.stdout
    assert told.stdout.endswith("attached to None\n")
