"""A Spark Connect server that accepts connections but does not answer: never, or not during a statement."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.errors import EngineLostError, SetupError
from lakehouse.settings import Settings
from lakehouse.spark import connect
from lakehouse.spark.connect import join
from lakehouse.storage.spark_failures import spark_failures
from lakehouse_tests.helpers.brokers.silent_connect import mute_socket, silent_server
from lakehouse_tests.helpers.waiting import wait_until

LIMIT = 60  # seconds that end a test that hangs

COMMAND = """
import sys
from lakehouse.spark import connect
from lakehouse.cli.main import main
connect.FIRST_ANSWER = float(sys.argv.pop(1))
main()
"""
STATEMENT = """
import sys
from lakehouse.cli import main, table_session
from lakehouse.spark.connect import join
from lakehouse.settings import Settings

def run(_):
    try:
        with table_session.stops_soon():
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
@pytest.mark.parametrize("is_mute", [True, False], ids=["no HTTP", "no answer"])
def test_a_server_without_a_first_answer_is_an_error(is_mute: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "FIRST_ANSWER", 1.0)
    with mute_socket() as mute_address, silent_server() as (address, service):
        service.silent.set()
        with pytest.raises(
            SetupError, match="does not answer as a Spark Connect server within 1 seconds.*SPARK_REMOTE"
        ):
            join(settings(mute_address if is_mute else address), {"spark.sql.session.timeZone": "UTC"})


@pytest.mark.slow
@pytest.mark.timeout(LIMIT)
def test_a_server_that_becomes_silent_during_a_statement_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_SILENCE", 0.5)
    monkeypatch.setattr(connect, "_TOUCH", 0.1)
    with silent_server() as (address, _):
        session = join(settings(address), {"spark.sql.session.timeZone": "UTC"})
        with pytest.raises(EngineLostError, match="does not respond.*Run it again"), spark_failures("/t"):
            session.sql("SELECT 1").collect()
        session.stop()


@pytest.mark.slow
@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_ends_a_command_that_waits_for_its_first_answer(number: int, tmp_path: Path) -> None:
    with mute_socket() as address:
        environment = {"LAKEHOUSE_SPARK_REMOTE": address, "LAKEHOUSE_HOME": str(tmp_path)}
        command = process(COMMAND, str(LIMIT), "load-base", **environment)
        assert command.stdout and command.stdout.readline()
        assert wait_until((tmp_path / "logs").exists, LIMIT)
        command.send_signal(number)
        output, _ = command.communicate(timeout=LIMIT)
    assert (command.returncode, output) == (130, "")


def output_after_signals(times: int, code: int) -> str:
    """Send signals to a process with an unanswered statement, check its exit code and return its output."""
    with silent_server() as (address, service):
        running_process = process(STATEMENT, address, str(code))
        assert service.asked.wait(LIMIT)
        running_process.send_signal(signal.SIGTERM)
        if times == 2 and not wait_until(lambda: running_process.poll() is not None, 1):
            running_process.send_signal(signal.SIGTERM)
        output, _ = running_process.communicate(timeout=LIMIT)
    assert running_process.returncode == code
    return output


@pytest.mark.slow
@pytest.mark.timeout(3 * LIMIT)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("code", [130, 0], ids=["interrupted", "done"])
def test_the_first_signal_ends_a_statement_without_an_answer(times: int, code: int) -> None:
    assert output_after_signals(times, code) == "asking\n"
