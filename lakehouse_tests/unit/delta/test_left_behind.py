"""A statement on an engine for which nobody waits any more: its session is left as it is."""

import os
import signal
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from lakehouse.delta import statement
from lakehouse.delta.statement import run_statement
from lakehouse.delta.write import session_settings
from lakehouse.errors import EngineLostError
from lakehouse.local.engine import ENGINE

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
    with session_settings(session, FENCE):
        run_statement(session, str(place / "tables" / "t"), work)


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
        interrupt_main()
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
        os.kill(os.getpid(), signal.SIGINT)
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
        interrupt_main()
        never.wait()

    session = Session(place / "engine", hangs)
    with pytest.raises(KeyboardInterrupt):
        write(session, place, work)
    assert len(asked) == 1
    assert noted(place) and not session.release_session_on_close
    never.set()
