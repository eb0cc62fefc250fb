"""A Spark Connect server that takes connections and never answers, at once or in the middle of a statement."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.errors import EngineLostError, SetupError
from lakehouse.settings import Settings
from lakehouse.spark.connect import client, join
from lakehouse.storage.spark_failures import spark_failures
from lakehouse_tests.helpers.brokers.silent_connect import mute_socket, silent_server
from lakehouse_tests.helpers.waiting import wait_until

LIMIT = 60  # seconds that end a test where something hangs

VERB = """
import sys
from lakehouse.spark.connect import client
from lakehouse.cli.main import main
client.FIRST_ANSWER = float(sys.argv.pop(1))
main()
"""
STATEMENT = """
import sys
from lakehouse.cli import main, stopping
from lakehouse.spark.connect import join
from lakehouse.settings import Settings

def run(_):
    try:
        with stopping.stops_soon():
            session = join(Settings(spark_remote=sys.argv[1], _env_file=None), {})
            try:
                print("asking", flush=True)
                session.sql("SELECT 1").collect()
            finally:
                session.stop()
    except KeyboardInterrupt:
        return int(sys.argv[2])

main.run = run
main.main()
"""


def settings(address: str) -> Settings:
    return Settings(spark_remote=address, _env_file=None)


def process(program: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.slow
@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize("mute", [True, False], ids=["no HTTP", "no answer"])
def test_a_server_that_gives_no_first_answer_is_an_error(mute: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_ANSWER", 1.0)
    with mute_socket() as at_once, silent_server() as (address, service):
        service.silent.set()
        with pytest.raises(SetupError, match="does not answer as a Spark Connect server in 1 seconds.*SPARK_REMOTE"):
            join(settings(at_once if mute else address), {"spark.sql.session.timeZone": "UTC"})


@pytest.mark.slow
@pytest.mark.timeout(LIMIT)
def test_a_server_that_falls_silent_in_a_statement_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_SILENCE", 0.5)
    monkeypatch.setattr(client, "_TOUCH", 0.1)
    with silent_server() as (address, _):
        session = join(settings(address), {"spark.sql.session.timeZone": "UTC"})
        with pytest.raises(EngineLostError, match="does not respond.*Run it again"), spark_failures("/t"):
            session.sql("SELECT 1").collect()
        session.stop()


@pytest.mark.slow
@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_ends_a_verb_that_waits_for_its_first_answer(number: int, tmp_path: Path) -> None:
    with mute_socket() as address:
        environment = {"LAKEHOUSE_SPARK_REMOTE": address, "LAKEHOUSE_HOME": str(tmp_path)}
        verb = process(VERB, str(LIMIT), "load-base", **environment)
        assert verb.stdout and verb.stdout.readline()
        assert wait_until((tmp_path / "logs").exists, LIMIT)
        verb.send_signal(number)
        said, _ = verb.communicate(timeout=LIMIT)
    assert (verb.returncode, said) == (130, "")


def stopped(times: int, code: int) -> str:
    """What a process says whose statement nobody answers, and that gets so many signals: it ends with its code."""
    with silent_server() as (address, service):
        running = process(STATEMENT, address, str(code))
        assert service.asked.wait(LIMIT)
        running.send_signal(signal.SIGTERM)
        if times == 2 and not wait_until(lambda: running.poll() is not None, 1):
            running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=LIMIT)
    assert running.returncode == code
    return said


@pytest.mark.slow
@pytest.mark.timeout(3 * LIMIT)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("code", [130, 0], ids=["interrupted", "done"])
def test_the_first_signal_ends_a_statement_to_which_nobody_answers(times: int, code: int) -> None:
    assert stopped(times, code) == "asking\n"
