"""Rows that do not fit into memory go into the home, and nothing of them stays."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse import read
from lakehouse.query import open_query
from lakehouse.query.connections import connect
from lakehouse.settings import Settings

LARGE_SORT = "SELECT md5(range::VARCHAR) AS text FROM range(1500000) ORDER BY text"


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("has_home", [True, False])
def test_rows_are_spilled_into_the_home_or_the_folder_of_the_system_and_removed(
    tmp_path: Path, working_directory: Path, monkeypatch: pytest.MonkeyPatch, has_home: bool
) -> None:
    home, system_folder = tmp_path / "home", tmp_path / "system"
    system_folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(system_folder))
    if has_home:
        home.mkdir()
    with connect(Settings(home=home, _env_file=None)) as connection:
        connection.execute("SET memory_limit = '50MB'")
        connection.execute("SET threads = 1")
        connection.execute(f"CREATE TABLE sorted AS {LARGE_SORT}")
        (spill,) = (home if has_home else system_folder).iterdir()
        assert spill.name.startswith("spill-") and any(spill.iterdir())
    assert not spill.exists()
    assert home.exists() is has_home
    assert not any(working_directory.iterdir())


PROGRAM = f"""
import os, signal, sys, threading, time
from lakehouse.query.connections import connect
from lakehouse.settings import Settings

signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background inherits that it is ignored
connection = connect(Settings(home=sys.argv[1], _env_file=None))
connection.execute("SET memory_limit = '50MB'")
connection.execute("SET threads = 1")
threading.Thread(target=connection.execute, args=("CREATE TABLE t AS {LARGE_SORT}",), daemon=True).start()
while not any(name.startswith("spill-") for name in os.listdir(sys.argv[1])):
    time.sleep(0.01)
print("spilled", flush=True)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""


def test_a_signal_leaves_no_spilled_rows(tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.stdout == "spilled\n", result.stderr
    assert result.returncode != 0
    assert not any(tmp_path.iterdir())


def test_every_reader_has_a_place_for_rows_outside_of_the_working_directory(
    tmp_path: Path, working_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    write_deltalake(tmp_path / "tables" / "t", pa.table({"id": [1]}))
    with open_query(Settings.load(), "SELECT current_setting('temp_directory')") as running_query:
        ((place,),) = running_query.fetch()
    assert place.startswith(f"{tmp_path}/spill-")
    relation = read("t").duckdb()
    ((place,),) = relation.query("t", "SELECT current_setting('temp_directory')").fetchall()
    assert place.startswith(f"{tmp_path}/spill-")
