"""An executor dies during a MERGE: Spark repeats its tasks, and no row is counted twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_tests.helpers.attacks.lost_executor import ROWS
from lakehouse_tests.helpers.places import ROOT

pytestmark = pytest.mark.invariant("7.3")

EXACT_COUNTS = {"source_rows": ROWS, "inserted": ROWS, "updated": 0, "deleted": 0, "rows": ROWS}


def run_merge(home: Path, mode: str) -> dict[str, int]:
    """Run a MERGE in which an executor dies; return its counts."""
    command = [sys.executable, "-m", "lakehouse_tests.helpers.attacks.lost_executor", str(home), mode]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
    with (home / "log").open("w") as log:
        run = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, timeout=600, check=False
        )
    assert run.returncode == 0, (home / "log").read_text()[-4000:]
    counts: dict[str, int] = json.loads(run.stdout.splitlines()[-1])
    return counts


def test_without_the_guard_delta_commits_the_wrong_counts_of_a_lost_executor(tmp_path):
    counts = run_merge(tmp_path, "unguarded")
    assert counts["source_rows"] > ROWS
    assert counts["rows"] == ROWS


def test_with_the_guard_a_merge_that_lost_an_executor_is_repeated_and_counts_rows_once(tmp_path, attack):
    with attack("Every record is accounted for", "an executor dies within the MERGE"):
        counts = run_merge(tmp_path, "guarded")
        assert counts.pop("refused") > 0
        assert counts == EXACT_COUNTS
