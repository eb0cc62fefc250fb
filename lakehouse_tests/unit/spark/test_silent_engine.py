"""An engine that accepts connections but does not answer, or that ends meanwhile."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import fcntl, json, os, socket, sys, time
from pathlib import Path
from pyspark.errors import PySparkException
from lakehouse.spark import connect
from lakehouse.errors import SetupError

folder = Path(sys.argv[1])
server = socket.create_server(("127.0.0.1", 0))

def write_address(name):
    address = {"port": server.getsockname()[1], "pid": 1, "fingerprint": "same", "start": name}
    (folder / "address").write_text(json.dumps(address))

def end_engine(*_):
    write_address("another")
    os.close(lock)
    raise PySparkException("refused")

(folder / "token").write_text("token")
write_address("first")
lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
connect.FIRST_ANSWER = 1.0
try:
    connect.attach(folder, "same")
except SetupError as error:
    print(error)
connect.require_answer = end_engine
print("attached to", connect.attach(folder, "same"))
"""


@pytest.mark.timeout(120)
def test_a_silent_engine_is_an_error_and_an_engine_that_ended_gives_no_session(tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "The engine of this home does not answer within 1 seconds" in result.stdout
    assert "Start lakehouse up again" in result.stdout
    assert result.stdout.endswith("attached to None\n")
