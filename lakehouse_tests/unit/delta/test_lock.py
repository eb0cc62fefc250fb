"""The lock that keeps writers of a local table apart."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehouse.delta import lock
from lakehouse.delta.lock import lock_file, table_lock
from lakehouse.errors import ConflictError, TableError

pytestmark = pytest.mark.invariant(11)

_HOLD = """
import sys
from lakehouse.delta.lock import table_lock
with table_lock(sys.argv[1], "t"):
    print(1, flush=True)
    input()
"""


@contextmanager
def held_elsewhere(uri: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of a table."""
    command = [sys.executable, "-c", _HOLD, uri]
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
        with pytest.raises(ConflictError, match="Another process has been writing t for"), table_lock(uri, "t"):
            pass
        with table_lock(f"{uri}_changes", "t_changes"):
            pass


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
    assert lock_file(uri) is None
    with table_lock(uri, "t"):
        pass
