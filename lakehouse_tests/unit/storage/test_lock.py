"""The lock that allows one writer of a local table at a time."""

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
from lakehouse.storage import lock, lock_holder
from lakehouse.storage.lock import table_lock
from lakehouse.storage.lock_holder import holder_of

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
fcntl.lockf(lock, fcntl.LOCK_EX)  # the kind of lock that Java uses
print(1, flush=True)
input()
"""


@contextmanager
def lock_elsewhere(uri: str) -> Iterator[subprocess.Popen[str]]:
    """Lock a table in another process."""
    with run_program(_HOLD, uri) as other_process:
        yield other_process


@contextmanager
def run_program(program: str, argument: str) -> Iterator[subprocess.Popen[str]]:
    """Run another process and wait until it has its lock."""
    command = [sys.executable, "-c", program, argument]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other_process:
        assert other_process.stdout and other_process.stdout.readline() == "1\n"
        yield other_process
        other_process.kill()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "tables" / "t")


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 0.2)


@pytest.mark.invariant("11.2")
def test_a_table_that_another_process_writes_is_a_conflict(uri: str, short_wait: None) -> None:
    with lock_elsewhere(uri):
        with (
            pytest.raises(ConflictError, match="t was locked for 0 seconds; now .* writes it"),
            table_lock(uri, "t"),
        ):
            pass
        with table_lock(f"{uri}_changes", "t_changes"):
            pass


HOLDER = r"lakehouse merge \(process {}, since \d\d:\d\d:\d\d UTC\)"


def test_the_log_and_the_error_name_the_holder_of_the_lock(
    uri: str, short_wait: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", lock.__name__)
    with lock_elsewhere(uri) as other_process:
        holder = HOLDER.format(other_process.pid)
        with pytest.raises(ConflictError, match=f"now {holder} writes it"), table_lock(uri, "t"):
            pass
    (message,) = caplog.messages
    assert re.fullmatch(f"Waiting for table t: {holder} writes it", message)


def test_a_former_holder_is_not_named_and_an_invalid_note_is_ignored(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lock_holder._work, "what", "")
    file = Store(uri).lock
    assert file
    with table_lock(uri, "t"):
        assert holder_of(file).startswith("a program (this process, since ")
        (note,) = file.parent.glob("*.holder")
        for text in (
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
            note.write_text(text)
            assert holder_of(file) == "another writer"
        note.write_bytes(b"\xff")
        assert holder_of(file) == "another writer"
    assert not note.exists()


def test_a_holder_since_another_day_is_described_with_its_date(uri: str) -> None:
    file = Store(uri).lock
    assert file
    with table_lock(uri, "t"):
        file.with_name("t.holder").write_text('["lakehouse merge", 1, 86399]')
        assert holder_of(file) == "lakehouse merge (process 1, since 1970-01-01 23:59:59 UTC)"


def test_a_holder_in_the_same_process_is_described_as_this_process(uri: str, short_wait: None) -> None:
    with table_lock(uri, "t"), pytest.raises(ConflictError, match=r"\(this process, since"), table_lock(uri, "t"):
        pass


def test_a_table_can_be_written_if_the_disk_refuses_the_note(uri: str) -> None:
    file = Store(uri).lock
    assert file
    file.with_name("t.holder").mkdir(parents=True)
    with table_lock(uri, "t"):
        assert holder_of(file) == "another writer"


@pytest.mark.invariant("11.2")
def test_the_same_folder_under_another_name_has_the_same_lock(uri: str, short_wait: None) -> None:
    with lock_elsewhere(f"file://{uri}"), pytest.raises(ConflictError), table_lock(uri, "t"):
        pass


@pytest.mark.invariant("11.2")
def test_a_killed_process_holds_no_lock(uri: str) -> None:
    with lock_elsewhere(uri) as other_process:
        other_process.kill()
        with table_lock(uri, "t"):
            pass


@pytest.mark.invariant("11.2")
def test_two_sessions_of_one_process_wait_for_each_other(uri: str, short_wait: None) -> None:
    with table_lock(uri, "t"), pytest.raises(ConflictError), table_lock(uri, "t"):
        pass


@pytest.mark.invariant("11.2")
def test_an_error_releases_the_lock(uri: str, short_wait: None) -> None:
    with pytest.raises(ZeroDivisionError), table_lock(uri, "t"):
        raise ZeroDivisionError
    with table_lock(uri, "t"):
        pass


def test_a_disk_that_refuses_the_lock_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("no folder")
    with pytest.raises(TableError, match="/tables/t.*LAKEHOUSE_TABLES"), table_lock(f"{tmp_path}/tables/t", "t"):
        pass


@pytest.mark.invariant("11.5")
def test_a_java_process_that_still_writes_for_an_ended_process_excludes_other_writers(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_END_SECONDS", 0.2)
    with table_lock(uri, "t"):
        pass
    java = Store(uri).lock
    assert java
    with run_program(_WRITE_FROM_JAVA, f"{java}.java") as other_process:
        with (
            pytest.raises(ConflictError, match="may still write t, in a Java process that still runs"),
            table_lock(uri, "t"),
        ):
            pytest.fail("nobody may write now")
        other_process.kill()
        other_process.wait()
        with table_lock(uri, "t"):
            pass


@pytest.mark.invariant("11.5")
def test_the_next_process_writes_when_the_java_process_of_an_ended_process_ends(
    uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", lock.__name__)
    with table_lock(uri, "t"):
        pass
    java = Store(uri).lock
    assert java
    with run_program(_WRITE_FROM_JAVA, f"{java}.java") as other_process:
        ending = Timer(0.5, other_process.kill)
        ending.start()
        with table_lock(uri, "t"):
            assert other_process.wait(1) < 0
    assert caplog.messages == ["Waiting for the statement of an ended process that may still write t"], "logged once"
