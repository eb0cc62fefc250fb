"""A command that uses Spark ends within seconds of a signal, even if Spark does not stop."""

import os
import signal
import subprocess
import sys

import pytest

_HANGS = """
import os, signal, sys, threading
from lakehouse.cli import table_session
table_session._LIMIT = 0.5
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, table_session.interrupt)
never = threading.Event()
with table_session.stops_soon():
    while True:
        try:
            print(1, flush=True)
            never.wait()
        except KeyboardInterrupt:
            pass
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_ends_even_if_spark_does_not_stop(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", _HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"1\n"
        os.kill(process.pid, number)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"The next merge includes what was not committed" in stderr


_STOPS = """
import os, signal, sys, time
from lakehouse.cli import table_session
table_session._LIMIT = 0.2
signal.signal(signal.SIGINT, table_session.interrupt)
try:
    with table_session.stops_soon():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
except KeyboardInterrupt:
    time.sleep(1)
sys.exit(7)
"""


@pytest.mark.timeout(60)
def test_other_processes_have_their_own_time_to_end_after_spark_has_stopped() -> None:
    process = subprocess.run([sys.executable, "-c", _STOPS], capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (7, b"")


_IN_A_DESTRUCTOR = """
import os, signal, time
from lakehouse.cli import main

class Object:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(1000))

def run(_):
    try:
        Object()
        time.sleep(30)
    except KeyboardInterrupt:
        return main.INTERRUPTED
    return 7

main.run = run
main.main()
"""

_TWO_SIGNALS = """
import os, signal
from lakehouse.cli import table_session

class Timer(table_session.Timer):
    def start(self):
        os.kill(os.getpid(), signal.SIGTERM)
        super().start()

table_session.Timer = Timer
"""


@pytest.mark.timeout(60)
def test_a_signal_that_comes_while_an_object_is_destroyed_is_not_lost() -> None:
    process = subprocess.run([sys.executable, "-c", _IN_A_DESTRUCTOR], capture_output=True, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (130, b"", b"")


@pytest.mark.timeout(60)
def test_a_second_signal_does_not_prevent_the_repetition_of_the_first() -> None:
    process = subprocess.run([sys.executable, "-c", _TWO_SIGNALS + _IN_A_DESTRUCTOR], capture_output=True, check=False)
    assert (process.returncode, process.stdout) == (130, b"")
