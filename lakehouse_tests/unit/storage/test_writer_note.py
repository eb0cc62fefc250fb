"""Whose statement writes: the note beside the lock of a table, and what the next writer does about it."""

import fcntl
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, main_thread
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectGrpcException

from lakehouse.errors import TableError
from lakehouse.settings.store import Store
from lakehouse.spark.engine import ENGINE
from lakehouse.storage import writer_note
from lakehouse.storage.lock import table_lock
from lakehouse.storage.statement import run_statement
from lakehouse.storage.writer_note import Writer, note_writer

pytestmark = pytest.mark.invariant(11)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    (tmp_path / "tables" / ".locks").mkdir(parents=True)
    return str(tmp_path / "tables" / "t")


@pytest.fixture
def note(uri: str) -> Path:
    return lock_of(uri).with_name("t.writer")


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "lock").touch()
    started(folder, "former")
    return folder


def started(engine: Path, start: str) -> None:
    """Give an engine the address of this start."""
    (engine / "address").write_text(json.dumps({"port": 1, "pid": 1, "fingerprint": "", "start": start}))


@contextmanager
def living(engine: Path) -> Iterator[None]:
    """Hold an engine's lock, as its process would."""
    lock = os.open(engine / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield
    os.close(lock)


def lock_of(uri: str) -> Path:
    lock = Store(uri).lock
    assert lock
    return lock


class Session:
    """Stands for a session over an engine: it knows where it is, and what it was asked to interrupt."""

    session_id = "9e107d9d-372b-4b3f-8a2e-5f1d6d1c9c55"

    def __init__(self, engine: Path | None) -> None:
        self.conf = SimpleNamespace(get=lambda name, default: str(engine) if engine and name == ENGINE else default)
        self.interrupted = Event()

    def interruptAll(self) -> None:  # noqa: N802 - PySpark's name
        self.interrupted.set()


def run(session: Any, uri: str, work: Any) -> None:
    run_statement(session, uri, work)


def test_what_ran_on_an_engine_that_is_dead_has_ended(uri: str, note: Path, engine: Path) -> None:
    note_writer(lock_of(uri), Writer.now(str(engine), "s"))
    with table_lock(uri, "t"):
        assert not note.exists()


def test_what_ran_on_an_engine_that_was_started_again_has_ended(uri: str, note: Path, engine: Path) -> None:
    note_writer(lock_of(uri), Writer.now(str(engine), "s"))
    started(engine, "another, whose process may have the same number")
    with living(engine), table_lock(uri, "t"):
        assert not note.exists()


def test_what_may_still_run_on_an_engine_keeps_others_from_writing(
    uri: str, note: Path, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_note, "_PATIENCE", 0.3)
    note_writer(lock_of(uri), Writer.now(str(engine), "s"))
    with living(engine):
        with pytest.raises(TableError, match=r"may still write t\b.*t\.writer.*lakehouse up"), table_lock(uri, "t"):
            pytest.fail("nobody may write now")
        assert note.exists()
    with table_lock(uri, "t"):
        assert not note.exists()


def newer(note: Path, _: Path) -> None:
    note.write_text(json.dumps({**json.loads(note.read_text()), "more": 1}))


def torn(note: Path, _: Path) -> None:
    note.write_text("{")


def not_text(note: Path, _: Path) -> None:
    note.write_bytes(b"\xff")


def no_object(note: Path, _: Path) -> None:
    note.write_text("[1]")


def of_other_kinds(note: Path, _: Path) -> None:
    note.write_text(json.dumps({**json.loads(note.read_text()), "engine": 1}))


def a_folder(note: Path, _: Path) -> None:
    note.unlink()
    note.mkdir()


def no_folder(_: Path, engine: Path) -> None:
    shutil.rmtree(engine)


def no_lock(_: Path, engine: Path) -> None:
    (engine / "lock").unlink()


def another_lock(_: Path, engine: Path) -> None:
    (engine / "lock").rename(engine / "former")
    (engine / "lock").touch()


@pytest.mark.parametrize(
    "what", [newer, torn, not_text, no_object, of_other_kinds, a_folder, no_folder, no_lock, another_lock]
)
def test_where_nobody_can_tell_whether_a_statement_runs_nothing_is_written_and_a_person_is_told_what_to_do(
    what: Callable[[Path, Path], None], uri: str, note: Path, engine: Path
) -> None:
    note_writer(lock_of(uri), Writer.now(str(engine), "s"))
    what(note, engine)
    with pytest.raises(TableError, match=r"may still write t\b.*t\.writer.*[Dd]elete"), table_lock(uri, "t"):
        pytest.fail("nobody may write now")
    assert note.exists()


def test_a_note_that_the_disk_refuses_is_told_as_an_error_of_the_table_and_nothing_is_written(
    uri: str, note: Path, engine: Path
) -> None:
    note.with_name("t.writer.new").mkdir()  # it cannot be written
    with pytest.raises(TableError):
        run(Session(engine), uri, lambda: pytest.fail("written"))
    assert not note.exists()


def test_who_writes_is_noted_while_the_statement_runs_and_not_after_it(uri: str, note: Path, engine: Path) -> None:
    seen: list[str] = []
    run(Session(engine), uri, lambda: seen.append(note.read_text()))
    assert Session.session_id in seen[0]
    assert str(engine) in seen[0]
    assert not note.exists()


def test_a_session_of_ones_own_notes_nothing(uri: str, note: Path) -> None:
    run(Session(None), uri, lambda: note.exists() and pytest.fail("noted"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (AnalysisException("[DELTA_CONCURRENT_APPEND] other"), True),
        (AnalysisException("[OPERATION_CANCELED] interrupted"), True),
        (AnalysisException("[INVALID_HANDLE.OPERATION_ABANDONED] given up"), False),
        (SparkConnectGrpcException("status = StatusCode.UNAVAILABLE"), False),
        (ValueError("of this side"), False),
    ],
)
def test_the_note_stays_where_the_engine_did_not_say_how_the_statement_ended(
    error: Exception, told: bool, uri: str, note: Path, engine: Path
) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        run(Session(engine), uri, fail)
    assert note.exists() is not told


def test_whoever_gives_up_waiting_interrupts_the_statement_and_waits_for_its_end(
    uri: str, note: Path, engine: Path
) -> None:
    session, ended = Session(engine), Event()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def work() -> None:
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)  # it wakes the thread that waits
        assert session.interrupted.wait(10)
        ended.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            run(session, uri, work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()
    assert not note.exists()
