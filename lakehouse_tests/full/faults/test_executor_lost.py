"""An executor dies within a MERGE: Spark runs its tasks again, and no row is counted twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_tests.helpers.attacks.lost_executor import ROWS
from lakehouse_tests.helpers.places import ROOT

pytestmark = pytest.mark.invariant(7)

EXACT = {"source_rows": ROWS, "inserted": ROWS, "updated": 0, "deleted": 0, "rows": ROWS}


def told_by(home: Path, how: str) -> dict[str, int]:
    """What a MERGE came to in which an executor died."""
    command = [sys.executable, "-m", "lakehouse_tests.helpers.attacks.lost_executor", str(home), how]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
    with (home / "log").open("w") as log:
        run = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, timeout=600, check=False
        )
    assert run.returncode == 0, (home / "log").read_text()[-4000:]
    told: dict[str, int] = json.loads(run.stdout.splitlines()[-1])
    return told


def test_spark_counts_rows_twice_whose_executor_dies_and_delta_commits_that_unless_it_is_told_to_refuse(tmp_path):
    told = told_by(tmp_path, "unguarded")
    assert told["source_rows"] > ROWS
    assert told["rows"] == ROWS


def test_a_merge_that_counted_rows_twice_is_not_committed_and_planned_again_counts_them_once(tmp_path, attack):
    with attack("Every record is accounted for", "an executor dies within the MERGE"):
        told = told_by(tmp_path, "guarded")
        assert told.pop("refused") > 0
        assert told == EXACT
