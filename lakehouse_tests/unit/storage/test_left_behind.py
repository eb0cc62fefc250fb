"""An abandoned statement, on an engine or in our own Java process: its session is not changed."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, main_thread
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from lakehouse.errors import EngineLostError
from lakehouse.spark.engine import ENGINE
from lakehouse.storage import statement
from lakehouse.storage.statement import run_statement

FENCE = {"fence": "1"}


class Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


class Session:
    """A stub of a session on an engine; its ``interruptAll`` may fail."""

    session_id = "9e107d9d-372b-4b3f-8a2e-5f1d6d1c9c55"

    def __init__(self, engine: Path, interrupt: Callable[[], None]) -> None:
        self.conf = Conf({ENGINE: str(engine)})
        self.release_session_on_close = True
        self.interruptAll = interrupt


class OwnSession(Session):
    """A stub of a session in a Java process of this process."""

    _jsparkSession: Any = None  # noqa: N815 - PySpark's name

    def __init__(self, interrupt: Callable[[], None]) -> None:
        super().__init__(Path(), interrupt)
        self.conf = Conf()
        self._jvm = Mock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "lock").touch()
    (tmp_path / "tables" / ".locks").mkdir(parents=True)
    return tmp_path


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    former_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former_handler)


def write(session: Any, home: Path, work: Callable[[], None]) -> None:
    run_statement(session, str(home / "tables" / "t"), work, FENCE)


def press_ctrl_c() -> None:
    """Send SIGINT as a terminal does: the waiting thread wakes up."""
    signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)


def press_ctrl_c_during_write(session: Any, home: Path, statement_ended: Event) -> None:
    """Press Ctrl-C while a statement runs, which ends with the event."""

    def work() -> None:
        press_ctrl_c()
        assert statement_ended.wait(20)

    with pytest.raises(KeyboardInterrupt):
        write(session, home, work)


def has_note(home: Path) -> bool:
    return (home / "tables" / ".locks" / "t.writer").exists()


@pytest.mark.invariant("11.6")
def test_a_second_ctrl_c_and_a_failing_engine_do_not_end_the_wait(home: Path) -> None:
    statement_ended, interrupts = Event(), []

    def interrupt() -> None:
        interrupts.append(1)
        if len(interrupts) == 1:
            raise KeyboardInterrupt
        if len(interrupts) == 2:
            raise SparkConnectGrpcException("not now")
        statement_ended.set()

    session = Session(home / "engine", interrupt)
    press_ctrl_c_during_write(session, home, statement_ended)
    assert statement_ended.is_set()
    assert not has_note(home)
    assert session.conf == {ENGINE: str(home / "engine")}
    assert session.release_session_on_close


@pytest.mark.invariant("11.4", "11.7")
def test_a_session_whose_statement_may_still_run_keeps_its_fence_is_not_released_and_writes_no_more(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "_PATIENCE", 0.2)
    monkeypatch.setattr(statement, "_POLL", 0.05)
    statement_ended = Event()
    session = Session(home / "engine", lambda: None)
    try:
        press_ctrl_c_during_write(session, home, statement_ended)
        assert session.conf["fence"] == "1"
        assert not session.release_session_on_close
        assert has_note(home)
        with pytest.raises(EngineLostError, match="Run it again"):
            write(session, home, lambda: pytest.fail("written"))
        assert session.conf["fence"] == "1"
    finally:
        statement_ended.set()


@pytest.mark.invariant("11.4")
@pytest.mark.timeout(60)
def test_an_engine_that_hangs_is_not_waited_for_longer_than_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts the interrupt and never answers."""
    monkeypatch.setattr(statement, "_PATIENCE", 1.0)
    end_of_test, interrupts = Event(), []

    def hang() -> None:
        interrupts.append(1)
        end_of_test.wait()

    def work() -> None:
        press_ctrl_c()
        end_of_test.wait()

    session = Session(home / "engine", hang)
    with pytest.raises(KeyboardInterrupt):
        write(session, home, work)
    assert len(interrupts) == 1
    assert has_note(home) and not session.release_session_on_close
    end_of_test.set()


@pytest.mark.invariant("11.5", "11.7")
def test_in_our_own_java_fence_and_lock_stay_until_the_statement_has_ended(home: Path) -> None:
    is_interrupted, states = Event(), list[Any]()
    session = OwnSession(is_interrupted.set)
    file = session._jvm.java.io.RandomAccessFile.return_value

    def work() -> None:
        press_ctrl_c()
        assert is_interrupted.wait(20)
        press_ctrl_c()  # a second Ctrl-C
        states.append((dict(session.conf), file.close.called))

    with pytest.raises(KeyboardInterrupt):
        write(session, home, work)
    assert states == [(FENCE, False)]
    assert file.close.called and session.conf == {}
    assert not has_note(home)


@pytest.mark.invariant("11.5", "11.7")
def test_in_our_own_java_fence_and_lock_stay_if_the_statement_does_not_end_and_it_writes_no_more(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "_PATIENCE", 0.2)
    statement_ended = Event()
    session = OwnSession(lambda: None)
    try:
        press_ctrl_c_during_write(session, home, statement_ended)
        assert session.conf == FENCE
        assert not session._jvm.java.io.RandomAccessFile.return_value.close.called
        with pytest.raises(EngineLostError, match="in this Spark session. Run it again"):
            write(session, home, lambda: pytest.fail("written"))
    finally:
        statement_ended.set()


def test_after_ctrl_c_a_warning_says_that_the_statement_is_being_stopped(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    statement_ended = Event()
    press_ctrl_c_during_write(OwnSession(statement_ended.set), home, statement_ended)
    assert "Stopping the statement that writes" in caplog.text
