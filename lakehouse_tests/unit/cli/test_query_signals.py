"""``lakehouse query`` ends by a signal, also while it waits, and leaves no half file."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehouse_tests.helpers.waiting import wait_until

SILENT = "SELECT range FROM range(9000000000000000) WHERE hash(range) = 1"
ENDLESS = f"{SILENT} OR range < 1000000"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@contextmanager
def endless_query(*arguments: str, stderr: int = subprocess.PIPE) -> Iterator["subprocess.Popen[bytes]"]:
    """A query that never ends, in a process of its own."""
    program = "from lakehouse.cli.main import main; main()"
    command = [sys.executable, "-c", program, "query", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_query_that_returns_rows(number: signal.Signals) -> None:
    with endless_query("--csv", ENDLESS) as process:
        assert process.stdout and process.stdout.readline() == b"range\n"
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, b"")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_signal_leaves_no_half_file(form: str, tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("previous")
    with endless_query("--format", form, "--output", "rows", ENDLESS) as process:
        assert wait_until(lambda: bool(list(tmp_path.glob(".rows.*.part"))), 60)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, b"")
    assert (tmp_path / "rows").read_text() == "previous"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["home", "rows"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("sql", "figures"), [(ENDLESS, r"\d s, [\d,]+,000 rows"), (SILENT, "[2-9] s, 0 rows")])
def test_a_terminal_shows_the_rows_so_far_and_a_signal_ends_the_query(sql: str, figures: str) -> None:
    terminal, stderr = pty.openpty()
    text = ""
    with endless_query("--csv", sql, stderr=stderr) as process:
        while "Querying ..." not in text or not re.search(figures, text):
            text += os.read(terminal, 4096).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    os.close(stderr)
    os.close(terminal)
    assert process.returncode == 130
    assert "Unexpected" not in text


@pytest.mark.timeout(120)
def test_a_signal_ends_a_query_while_it_waits_for_its_next_rows_in_arrow() -> None:
    """On the main thread, no signal would reach it then."""
    few_rows = f"{SILENT} OR range < 300000"  # fewer would wait in a buffer of DuckDB
    terminal, stderr = pty.openpty()
    seconds, text = defaultdict[str, set[str]](set), ""
    with endless_query("--format", "parquet", "--output", "rows", few_rows, stderr=stderr) as process:
        while not any(len(times) > 3 for times in seconds.values()):  # then DuckDB is asked for the next rows
            text += os.read(terminal, 4096).decode(errors="replace")
            for time, rows in re.findall(r"(\d+) s, ([\d,]+,000) rows", text):
                seconds[rows].add(time)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    os.close(stderr)
    os.close(terminal)
    assert process.returncode == 130
    assert "Unexpected" not in text
