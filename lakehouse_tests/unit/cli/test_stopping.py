"""A verb that works with Spark ends within seconds of a signal, also where Spark does not let it."""

import os
import signal
import subprocess
import sys

import pytest

_HANGS = """
import os, signal, sys, threading
from lakehouse.cli import stopping
stopping._LIMIT = 0.5
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, stopping.interrupt)
never = threading.Event()
with stopping.stops_soon():
    while True:
        try:
            print(1, flush=True)
            never.wait()
        except KeyboardInterrupt:
            pass
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_verb_that_spark_keeps_from_its_end_ends_all_the_same(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", _HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"1\n"
        os.kill(process.pid, number)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"What was not committed is merged the next time" in told
