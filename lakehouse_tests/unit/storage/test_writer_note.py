"""The note of a writing statement next to the lock of a table, and how the next writer handles it."""

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
from lakehouse.storage import lock
from lakehouse.storage.lock import Writer, note_writer, table_lock
from lakehouse.storage.statement import is_abandoned, run_statement

pytestmark = pytest.mark.invariant("11.4")


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
    write_address(folder, "former")
    return folder


def write_address(engine: Path, start: str) -> None:
    """Write the address file of an engine with this start."""
    (engine / "address").write_text(json.dumps({"port": 1, "pid": 1, "fingerprint": "", "start": start}))


@contextmanager
def living(engine: Path) -> Iterator[None]:
    """Hold an engine's lock like its process."""
    lock = os.open(engine / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield
    os.close(lock)


def lock_of(uri: str) -> Path:
    lock = Store(uri).lock
    assert lock
    return lock


class Session:
    """A stub of a session on an engine that records its interrupts."""

    session_id = "9e107d9d-372b-4b3f-8a2e-5f1d6d1c9c55"

    def __init__(self, engine: Path | None) -> None:
        self.conf = SimpleNamespace(get=lambda name, default: str(engine) if engine and name == ENGINE else default)
        self.interrupted = Event()

    def interruptAll(self) -> None:  # noqa: N802 - PySpark's name
        self.interrupted.set()


def run(session: Any, uri: str, work: Any) -> None:
    run_statement(session, uri, work)


def test_a_statement_on_a_dead_engine_has_ended(uri: str, note: Path, engine: Path) -> None:
    note_writer(lock_of(uri), Writer.now(str(engine), "s"))
    with table_lock(uri, "t"):
        assert not note.exists()


def test_a_statement_on_an_engine_that_was_restarted_has_ended(uri: str, note: Path, engine: Path) -> None:
    note_writer(lock_of(uri), Writer.now(str(engine), "s"))
    write_address(engine, "another, whose process may have the same number")
    with living(engine), table_lock(uri, "t"):
        assert not note.exists()


def test_a_statement_that_may_still_run_on_an_engine_excludes_other_writers(
    uri: str, note: Path, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_END_SECONDS", 0.3)
    note_writer(lock_of(uri), Writer.now(str(engine), "s"))
    with living(engine):
        with pytest.raises(TableError, match=r"may still write t\b.*t\.writer.*lakehouse up"), table_lock(uri, "t"):
            pytest.fail("nobody may write now")
        assert note.exists()
    with table_lock(uri, "t"):
        assert not note.exists()


def add_to_note(note: Path, **fields: object) -> None:
    note.write_text(json.dumps(json.loads(note.read_text()) | fields))


def replace_note_by_folder(note: Path, _: Path) -> None:
    note.unlink()
    note.mkdir()


def replace_engine_lock(_: Path, engine: Path) -> None:
    (engine / "lock").rename(engine / "former")
    (engine / "lock").touch()


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "a newer note": lambda note, _: add_to_note(note, more=1),
    "a partial note": lambda note, _: note.write_text("{"),
    "invalid text": lambda note, _: note.write_bytes(b"\xff"),
    "a list": lambda note, _: note.write_text("[1]"),
    "other types": lambda note, _: add_to_note(note, engine=1),
    "a folder as note": replace_note_by_folder,
    "no engine folder": lambda _, engine: shutil.rmtree(engine),
    "no engine lock": lambda _, engine: (engine / "lock").unlink(),
    "another engine lock": replace_engine_lock,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_if_the_end_of_a_statement_is_unknown_nothing_is_written_and_the_error_gives_advice(
    damage: Callable[[Path, Path], object], uri: str, note: Path, engine: Path
) -> None:
    note_writer(lock_of(uri), Writer.now(str(engine), "s"))
    damage(note, engine)
    with pytest.raises(TableError, match=r"may still write t\b.*t\.writer.*[Dd]elete"), table_lock(uri, "t"):
        pytest.fail("nobody may write now")
    assert note.exists()


def test_a_note_that_the_disk_refuses_is_an_error_of_the_table_and_nothing_is_written(
    uri: str, note: Path, engine: Path
) -> None:
    note.with_name("t.writer.new").mkdir()  # the note cannot be written
    with pytest.raises(TableError):
        run(Session(engine), uri, lambda: pytest.fail("written"))
    assert not note.exists()


def test_the_note_exists_only_while_the_statement_runs(uri: str, note: Path, engine: Path) -> None:
    notes: list[str] = []
    run(Session(engine), uri, lambda: notes.append(note.read_text()))
    assert Session.session_id in notes[0]
    assert str(engine) in notes[0]
    assert not note.exists()


def test_a_session_without_an_engine_writes_no_note(uri: str, note: Path) -> None:
    notes: list[bool] = []
    run(Session(None), uri, lambda: notes.append(note.exists()))
    assert notes == [False]


class ThreadEndError(BaseException):
    """What ends a thread from outside, as PyThreadState_SetAsyncExc does."""


@pytest.mark.parametrize("error", [ThreadEndError(), SystemExit(0), GeneratorExit(), KeyboardInterrupt()])
@pytest.mark.parametrize("has_engine", [True, False])
def test_a_statement_whose_thread_ends_does_not_count_as_done(
    error: BaseException, has_engine: bool, uri: str, note: Path, engine: Path
) -> None:
    def end_thread() -> None:
        raise error

    session = Session(engine if has_engine else None)
    with pytest.raises(type(error)):
        run(session, uri, end_thread)
    assert note.exists() is has_engine
    assert is_abandoned(session)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "is_answer"),
    [
        (AnalysisException("[DELTA_CONCURRENT_APPEND] other"), True),
        (AnalysisException("[OPERATION_CANCELED] interrupted"), True),
        (AnalysisException("[INVALID_HANDLE.OPERATION_ABANDONED] given up"), False),
        (SparkConnectGrpcException("status = StatusCode.UNAVAILABLE"), False),
        (ValueError("of this side"), False),
    ],
)
def test_the_note_is_kept_if_the_engine_did_not_report_the_end_of_the_statement(
    error: Exception, is_answer: bool, uri: str, note: Path, engine: Path
) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        run(Session(engine), uri, fail)
    assert note.exists() is not is_answer


@pytest.mark.invariant("11.6")
def test_an_interrupted_wait_interrupts_the_statement_and_waits_for_its_end(uri: str, note: Path, engine: Path) -> None:
    session, statement_ended = Session(engine), Event()
    former_handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def work() -> None:
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)  # wakes the waiting thread
        assert session.interrupted.wait(10)
        statement_ended.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            run(session, uri, work)
    finally:
        signal.signal(signal.SIGINT, former_handler)
    assert statement_ended.is_set()
    assert not note.exists()
