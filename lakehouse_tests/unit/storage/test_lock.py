"""The lock that keeps writers of a local table apart."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from lakehouse.errors import ConflictError, TableError
from lakehouse.settings.store import Store
from lakehouse.storage import lock, lock_holder, writer_note
from lakehouse.storage.lock import table_lock
from lakehouse.storage.lock_holder import holder_of

pytestmark = pytest.mark.invariant(11)

_HOLD = """
import sys
from lakehouse.storage.lock_holder import name_work
from lakehouse.settings.store import Store
from lakehouse.storage.lock import table_lock
name_work("lakehouse merge")
with table_lock(sys.argv[1], "t"):
    print(1, flush=True)
    input()
"""


_WRITE_FROM_JAVA = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(lock, fcntl.LOCK_EX)  # of the kind that Java takes
print(1, flush=True)
input()
"""


@contextmanager
def held_elsewhere(uri: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of a table."""
    with running(_HOLD, uri) as other:
        yield other


@contextmanager
def running(program: str, argument: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has what it holds."""
    command = [sys.executable, "-c", program, argument]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "1\n"
        yield other
        other.kill()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "tables" / "t")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 0.2)


def test_a_table_that_another_process_writes_is_a_conflict(uri: str, hurried: None) -> None:
    with held_elsewhere(uri):
        with (
            pytest.raises(ConflictError, match="t was never free for 0 seconds; now it is written by"),
            table_lock(uri, "t"),
        ):
            pass
        with table_lock(f"{uri}_changes", "t_changes"):
            pass


HOLDER = r"lakehouse merge \(process {}, since \d\d:\d\d:\d\d UTC\)"


def test_who_waits_is_told_for_whom(uri: str, hurried: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", lock.__name__)
    with held_elsewhere(uri) as other:
        whom = HOLDER.format(other.pid)
        with pytest.raises(ConflictError, match=f"now it is written by {whom}"), table_lock(uri, "t"):
            pass
    (told,) = caplog.messages
    assert re.fullmatch(f"Waiting for t, which is written by {whom}", told)


def test_who_has_given_the_lock_back_is_named_no_more_and_a_note_that_says_nothing_is_none(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lock_holder._work, "what", "")
    file = Store(uri).lock
    assert file
    with table_lock(uri, "t"):
        assert holder_of(file).startswith("a program (this process, since ")
        (note,) = file.parent.glob("*.holder")
        for damaged in (
            "",
            "[",
            "[" * 200_000,
            '["merge", 1]',
            '["merge", 1, "now"]',
            '["merge", 1, 1e300]',
            '["merge", 1, NaN]',
            '["merge", "1", 1]',
            '["merge", true, 1]',
            '["me\\u001b[2Jrge", 1, 1]',
            '[["merge"], 1, 1]',
            f'["{"m" * 2000}", 1, 1]',
            "7",
        ):
            note.write_text(damaged)
            assert holder_of(file) == "another writer"
        note.write_bytes(b"\xff")
        assert holder_of(file) == "another writer"
    assert not note.exists()


def test_a_holder_since_another_day_is_told_with_its_date(uri: str) -> None:
    file = Store(uri).lock
    assert file
    with table_lock(uri, "t"):
        file.with_name("t.holder").write_text('["lakehouse merge", 1, 86399]')
        assert holder_of(file) == "lakehouse merge (process 1, since 1970-01-01 23:59:59 UTC)"


def test_a_thread_of_this_very_process_is_told_as_one(uri: str, hurried: None) -> None:
    with table_lock(uri, "t"), pytest.raises(ConflictError, match=r"\(this process, since"), table_lock(uri, "t"):
        pass


def test_a_note_that_the_disk_refuses_keeps_nobody_from_writing(uri: str) -> None:
    file = Store(uri).lock
    assert file
    file.with_name("t.holder").mkdir(parents=True)
    with table_lock(uri, "t"):
        assert holder_of(file) == "another writer"


def test_the_same_folder_under_another_name_has_the_same_lock(uri: str, hurried: None) -> None:
    with held_elsewhere(f"file://{uri}"), pytest.raises(ConflictError), table_lock(uri, "t"):
        pass


def test_a_process_that_was_killed_holds_nothing(uri: str) -> None:
    with held_elsewhere(uri) as other:
        other.kill()
        with table_lock(uri, "t"):
            pass


def test_two_sessions_of_one_process_wait_for_each_other(uri: str, hurried: None) -> None:
    with table_lock(uri, "t"), pytest.raises(ConflictError), table_lock(uri, "t"):
        pass


def test_an_error_inside_frees_the_lock(uri: str, hurried: None) -> None:
    with pytest.raises(ZeroDivisionError), table_lock(uri, "t"):
        raise ZeroDivisionError
    with table_lock(uri, "t"):
        pass


def test_a_disk_that_refuses_the_lock_is_an_error_with_the_way_on(tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("no folder")
    with pytest.raises(TableError, match="/tables/t.*LAKEHOUSE_TABLES"), table_lock(f"{tmp_path}/tables/t", "t"):
        pass


@pytest.mark.parametrize("uri", ["s3a://bucket/t", "abfss://box@account/t", "memory://t"])
def test_a_store_of_its_own_needs_no_lock(uri: str) -> None:
    assert Store(uri).lock is None
    with table_lock(uri, "t"):
        pass


def test_a_java_that_still_writes_for_a_process_that_is_gone_keeps_others_from_writing(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_note, "_PATIENCE", 0.2)
    with table_lock(uri, "t"):
        pass
    java = Store(uri).lock
    assert java
    with running(_WRITE_FROM_JAVA, f"{java}.java") as other:
        with pytest.raises(ConflictError, match="may still write t, in a Java that lives"), table_lock(uri, "t"):
            pytest.fail("nobody may write now")
        other.kill()
        other.wait()
        with table_lock(uri, "t"):
            pass


def test_a_java_that_ends_while_it_is_waited_for_lets_the_next_one_write(
    uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", writer_note.__name__)
    with table_lock(uri, "t"):
        pass
    java = Store(uri).lock
    assert java
    with running(_WRITE_FROM_JAVA, f"{java}.java") as other:
        ending = Timer(0.5, other.kill)
        ending.start()
        with table_lock(uri, "t"):
            assert other.wait(1) < 0
    assert caplog.messages == ["Waiting for the end of what a process that is gone left writing t"], "told once"
