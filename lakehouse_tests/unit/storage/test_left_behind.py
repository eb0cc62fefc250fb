"""A statement for which nobody waits any more, on an engine or in a Java of our own: its session is left as it is."""

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

pytestmark = pytest.mark.invariant(11)

FENCE = {"fence": "1"}


class Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


class Session:
    """Stands for a session over an engine; what it is asked to interrupt may refuse."""

    session_id = "9e107d9d-372b-4b3f-8a2e-5f1d6d1c9c55"

    def __init__(self, engine: Path, interrupted: Callable[[], None]) -> None:
        self.conf = Conf({ENGINE: str(engine)})
        self.release_session_on_close = True
        self.interruptAll = interrupted


class OwnSession(Session):
    """Stands for a session in a Java of this process."""

    _jsparkSession: Any = None  # noqa: N815 - PySpark's name

    def __init__(self, interrupted: Callable[[], None]) -> None:
        super().__init__(Path(), interrupted)
        self.conf = Conf()
        self._jvm = Mock()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "lock").touch()
    (tmp_path / "tables" / ".locks").mkdir(parents=True)
    return tmp_path


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def write(session: Any, place: Path, work: Callable[[], None]) -> None:
    run_statement(session, str(place / "tables" / "t"), work, FENCE)


def press_ctrl_c() -> None:
    """As a terminal does it: the thread that waits wakes up."""
    signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)


def noted(place: Path) -> bool:
    return (place / "tables" / ".locks" / "t.writer").exists()


def test_asking_again_and_an_engine_that_refuses_do_not_end_the_wait(place: Path) -> None:
    ended, asked = Event(), []

    def interrupted() -> None:
        asked.append(1)
        if len(asked) == 1:
            raise KeyboardInterrupt
        if len(asked) == 2:
            raise SparkConnectGrpcException("not now")
        ended.set()

    def work() -> None:
        press_ctrl_c()
        assert ended.wait(20)

    session = Session(place / "engine", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(session, place, work)
    assert ended.is_set()
    assert not noted(place)
    assert session.conf == {ENGINE: str(place / "engine")}
    assert session.release_session_on_close


def test_a_session_whose_statement_may_run_on_keeps_its_fence_and_is_not_released_and_writes_no_more(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "_PATIENCE", 0.2)
    monkeypatch.setattr(statement, "_POLL", 0.05)
    ended = Event()

    def work() -> None:
        press_ctrl_c()
        assert ended.wait(20)

    session = Session(place / "engine", lambda: None)
    try:
        with pytest.raises(KeyboardInterrupt):
            write(session, place, work)
        assert session.conf["fence"] == "1"
        assert not session.release_session_on_close
        assert noted(place)
        with pytest.raises(EngineLostError, match="Run it again"):
            write(session, place, lambda: pytest.fail("written"))
        assert session.conf["fence"] == "1"
    finally:
        ended.set()


@pytest.mark.timeout(60)
def test_an_engine_that_hangs_keeps_nobody_longer_than_others(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the question and never answers it."""
    monkeypatch.setattr(statement, "_PATIENCE", 1.0)
    never, asked = Event(), []

    def hangs() -> None:
        asked.append(1)
        never.wait()

    def work() -> None:
        press_ctrl_c()
        never.wait()

    session = Session(place / "engine", hangs)
    with pytest.raises(KeyboardInterrupt):
        write(session, place, work)
    assert len(asked) == 1
    assert noted(place) and not session.release_session_on_close
    never.set()


def test_in_a_java_of_our_own_fence_and_lock_stay_until_the_statement_has_ended(place: Path) -> None:
    asked, seen = Event(), list[Any]()
    session = OwnSession(asked.set)
    file = session._jvm.java.io.RandomAccessFile.return_value

    def work() -> None:
        press_ctrl_c()
        assert asked.wait(20)
        press_ctrl_c()  # a person who asks twice
        seen.append((dict(session.conf), file.close.called))

    with pytest.raises(KeyboardInterrupt):
        write(session, place, work)
    assert seen == [(FENCE, False)]
    assert file.close.called and session.conf == {}
    assert not noted(place)


def test_in_a_java_of_our_own_that_does_not_end_fence_and_lock_stay_and_it_writes_no_more(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "_PATIENCE", 0.2)
    ended = Event()
    session = OwnSession(lambda: None)

    def work() -> None:
        press_ctrl_c()
        assert ended.wait(20)

    try:
        with pytest.raises(KeyboardInterrupt):
            write(session, place, work)
        assert session.conf == FENCE
        assert not session._jvm.java.io.RandomAccessFile.return_value.close.called
        with pytest.raises(EngineLostError, match="in this Spark session. Run it again"):
            write(session, place, lambda: pytest.fail("written"))
    finally:
        ended.set()


def test_a_person_who_stops_a_statement_is_told_that_its_end_is_waited_for(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = Event()

    def work() -> None:
        press_ctrl_c()
        assert ended.wait(20)

    with pytest.raises(KeyboardInterrupt):
        write(OwnSession(ended.set), place, work)
    assert "Stopping what writes" in caplog.text
